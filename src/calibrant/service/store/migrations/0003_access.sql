-- Who may do what, and who did it. A token is a secret of 256 random bits; its SHA-256 digest is kept here and nothing else
-- of it. Functions that change something take the digest of the caller's token, check it here, and write the audit in
-- the same transaction: whoever serves needs no right to these tables.

create table token (
    number integer generated always as identity primary key,
    name text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$'),
    digest bytea not null unique check (length(digest) = 32),
    scopes text[] not null check (scopes <@ '{predict,label,read,admin}' and cardinality(scopes) > 0),
    streams text[], -- null: all of them
    made timestamptz not null default clock_timestamp(),
    expires timestamptz,
    revoked timestamptz
);

-- A login to the pages: another secret, in the browser's cookie, which ends with its token.
create table session (
    digest bytea primary key check (length(digest) = 32),
    token integer not null references token,
    expires timestamptz not null
);

-- What was decided, by whom. No ids, keys or scores.
create table audit (
    number bigint generated always as identity primary key,
    time timestamptz not null default clock_timestamp(),
    who text not null,
    action text not null,
    stream text,
    detail text
);

create function find_token(given bytea, is_session boolean)
    returns table (number integer, name text, scopes text[], streams text[], expires timestamptz)
    language sql stable security definer set search_path from current
begin atomic
    select token.number, token.name, token.scopes, token.streams, token.expires from token
    where not is_session and token.digest = given and token.revoked is null
        and coalesce(token.expires > clock_timestamp(), true)
    union all
    select token.number, token.name, token.scopes, token.streams, least(token.expires, session.expires)
    from session join token on token.number = session.token
    where is_session and session.digest = given and token.revoked is null
        and least(token.expires, session.expires) > clock_timestamp();
end;

-- The name of a caller that may do this; null is the owner of the schema, on the command line.
create function caller_name(caller bytea, scope text, wanted text) returns text
    language plpgsql security definer set search_path from current as $$
declare
    found record;
begin
    if caller is null then
        if pg_has_role(session_user, (select nspowner from pg_namespace where nspname = current_schema()), 'member') then
            return 'command line';
        end if;
        raise exception 'the owner of the schema must do this' using errcode = 'CB403';
    end if;
    for found in
        select * from find_token(caller, false) union all select * from find_token(caller, true)
    loop
        if scope = any (found.scopes) and (found.streams is null or wanted = any (found.streams)) then
            return found.name || ' (' || found.number || ')';
        end if;
    end loop;
    raise exception 'the token does not allow this' using errcode = 'CB403';
end $$;

create function record_audit(who text, action text, stream text, detail text) returns void
    language sql as 'insert into audit (who, action, stream, detail) values ($1, $2, $3, $4)';

-- The settings of each stream, as the actions in its log say them: the first days of a log are dropped one day.
create table settings (
    stream integer not null references stream,
    position bigint not null,
    document text not null,
    primary key (stream, position)
);
insert into settings
    select stream, position, document::json ->> 'settings' from log
    where kind = 5 and document::json ->> 'action' = 'settings';

create or replace function append_entry(wanted integer, what smallint, content text) returns bigint
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    was record;
begin
    was := lock_head(wanted);
    insert into log (stream, position, day, time, kind, document)
        values (wanted, was.place + 1, day_of(was.moment), was.moment, what, content);
    if content::json ->> 'action' = 'settings' then
        insert into settings values (wanted, was.place + 1, content::json ->> 'settings');
    end if;
    update head set position = was.place + 1, time = was.moment where head.stream = wanted;
    return was.place + 1;
end $$;

-- An action of a person, as an entry of the log.
create function act(caller bytea, wanted text, content text) returns bigint
    language plpgsql security definer set search_path from current as $$
declare
    who text := caller_name(caller, 'admin', wanted);
    numbered integer := (select stream.stream from stream where stream.name = wanted);
begin
    if numbered is null then
        raise exception 'no such stream' using errcode = 'no_data_found';
    end if;
    perform record_audit(who, content::json ->> 'action', wanted, content::json ->> 'version');
    return append_entry(numbered, 5::smallint, content);
end $$;

-- Removal of an id: the audit does not say which.
create function erase_by(caller bytea, wanted text, id uuid) returns bigint
    language plpgsql security definer set search_path from current as $$
declare
    who text := caller_name(caller, 'admin', wanted);
    numbered integer := (select stream.stream from stream where stream.name = wanted);
begin
    if numbered is null then
        raise exception 'no such stream' using errcode = 'no_data_found';
    end if;
    perform record_audit(who, 'erase', wanted, null);
    return erase_id(numbered, id);
end $$;

create function open_stream(caller bytea, called text, settings text) returns integer
    language plpgsql security definer set search_path from current as $$
begin
    perform record_audit(caller_name(caller, 'admin', null), 'create stream', called, null);
    return create_stream(called, settings);
end $$;

create function issue_token(
    caller bytea, called text, secret_digest bytea, allowed text[], only_streams text[], until timestamptz
) returns integer
    language plpgsql security definer set search_path from current as $$
declare
    who text := caller_name(caller, 'admin', null);
    made integer;
begin
    insert into token (name, digest, scopes, streams, expires)
        values (called, secret_digest, allowed, only_streams, until) returning number into made;
    perform record_audit(who, 'create token', null, called || ' (' || made || ')');
    return made;
end $$;

-- A new secret for a token; the old one works for some seconds more, so that clients can change over.
create function rotate_token(caller bytea, wanted integer, secret_digest bytea, overlap double precision)
    returns integer
    language plpgsql security definer set search_path from current as $$
declare
    who text := caller_name(caller, 'admin', null);
    made integer;
begin
    insert into token (name, digest, scopes, streams, expires)
        select name, secret_digest, scopes, streams, expires from token
        where number = wanted and revoked is null and coalesce(expires > clock_timestamp(), true)
        returning number into made;
    if made is null then
        raise exception 'no such token' using errcode = 'no_data_found';
    end if;
    update token set expires = least(expires, clock_timestamp() + make_interval(secs => overlap)) where number = wanted;
    perform record_audit(who, 'rotate token', null, wanted || ' by ' || made);
    return made;
end $$;

create function revoke_token(caller bytea, wanted integer) returns void
    language plpgsql security definer set search_path from current as $$
declare
    who text := caller_name(caller, 'admin', null);
    called text;
begin
    update token set revoked = coalesce(revoked, clock_timestamp()) where number = wanted returning name into called;
    if called is null then
        raise exception 'no such token' using errcode = 'no_data_found';
    end if;
    delete from session where token = wanted;
    perform record_audit(who, 'revoke token', null, called || ' (' || wanted || ')');
end $$;

create function list_tokens(caller bytea)
    returns table (
        number integer, name text, scopes text[], streams text[], made timestamptz, expires timestamptz,
        revoked timestamptz
    )
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
    perform caller_name(caller, 'admin', null);
    return query select number, name, scopes, streams, made, expires, revoked from token order by number;
end $$;

create function list_audit(caller bytea, before bigint, most integer)
    returns table (number bigint, at timestamptz, who text, action text, stream text, detail text)
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
    perform caller_name(caller, 'admin', null);
    return query select number, time, who, action, stream, detail from audit
        where number < coalesce(before, number + 1) order by number desc limit most;
end $$;

create function open_session(given bytea, secret_digest bytea, seconds double precision) returns void
    language plpgsql security definer set search_path from current as $$
declare
    found record;
begin
    select * into found from find_token(given, false);
    if found.number is null then
        raise exception 'no such token' using errcode = 'CB403';
    end if;
    delete from session where session.expires < clock_timestamp();
    insert into session (digest, token, expires)
        values (secret_digest, found.number, clock_timestamp() + make_interval(secs => seconds));
    perform record_audit(found.name || ' (' || found.number || ')', 'log in', null, null);
end $$;

create function close_session(given bytea) returns void
    language sql security definer set search_path from current
    begin atomic delete from session where digest = given; end;
