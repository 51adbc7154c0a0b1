-- The log of each stream, and what rests on it. Times are microseconds since 1970 in UTC, so that a state read back in
-- Python has the same bits. docs/service/protocol.md states and proves what this file relies on.

create table stream (
    stream integer generated always as identity primary key,
    name text not null unique check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$')
);

-- The end of each log. Whoever appends holds the lock on this row until the commit.
create table head (
    stream integer primary key references stream,
    position bigint not null check (position >= 0),
    time bigint not null
);

create table log (
    stream integer not null,
    position bigint not null,
    day date not null,
    time bigint not null,
    kind smallint not null check (kind between 1 and 5),
    id uuid,
    score double precision,
    key text,
    at bigint,
    predicted bigint,
    version integer,
    probability double precision,
    label smallint check (label in (0, 1)),
    document text
) partition by range (day);

-- Ids of predictions, each once, over all days that are kept.
create table known (
    stream integer not null,
    id uuid not null,
    position bigint not null,
    day date not null,
    primary key (stream, id)
);
create index known_day on known (day);

-- How far each stream is learned, and by whom: a commit needs the fence that it began with. The beat rises while a learner
-- is at work that does not change the position.
create table learner (
    stream integer primary key references stream,
    fence bigint not null,
    position bigint not null,
    beat bigint not null default 0
);

-- A state after all entries up to a position.
create table checkpoint (
    stream integer not null references stream,
    position bigint not null,
    build text not null,
    state bytea not null,
    digest bytea not null,
    primary key (stream, position)
);
alter table checkpoint alter column state set storage external;

-- Versions of the map are never changed.
create table version (
    stream integer not null references stream,
    number integer not null check (number >= 1),
    position bigint not null,
    time bigint not null,
    document text not null,
    primary key (stream, number)
);

-- Decisions about what is served, in order: the last one counts.
create table promotion (
    stream integer not null references stream,
    position bigint not null,
    place smallint not null,
    version integer not null,
    cause text not null,
    primary key (stream, position, place)
);

create function day_of(moment bigint) returns date
    language sql immutable strict
    return (timestamp '1970-01-01' + make_interval(secs => moment / 1000000))::date;

-- The partition of one day, made when its first entry comes or before.
create function make_day(wanted date) returns void
    language plpgsql security definer set search_path from current as $$
declare
    name text := 'log_' || to_char(wanted, 'YYYYMMDD');
begin
    if to_regclass(name) is not null then
        return;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('calibrant ' || name, 0));
    if to_regclass(name) is not null then
        return;
    end if;
    execute format('create table %I (like log including constraints)', name);
    execute format('alter table %I add primary key (stream, position)', name);
    execute format(
        'alter table log attach partition %I for values from (%L) to (%L)', name, wanted, wanted + 1
    );
end $$;

-- Lock the end of a log, and read it: positions are taken from here, in the order of the commits.
create function lock_head(wanted integer, out place bigint, out moment bigint)
    language plpgsql as $$
begin
    select head.position, greatest(head.time, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
        into place, moment
        from head where head.stream = wanted for update;
    if not found then
        raise exception 'no such stream' using errcode = 'no_data_found';
    end if;
    perform make_day(day_of(moment));
end $$;

-- Append predictions. Each id is logged once: `found` is 0 for a new one, 1 for one that was logged before with the same
-- content, 2 for one with another content. The answer is the one that was logged first.
create function append_predictions(
    wanted integer, ids uuid[], scores double precision[], keys text[], ats bigint[], versions integer[],
    probabilities double precision[]
) returns table (found smallint, answer double precision, by_version integer)
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    was record;
    place integer;
    added bigint := 0;
    first record;
begin
    was := lock_head(wanted);
    if (select count(distinct id) from unnest(ids) as id) = cardinality(ids)
        and not exists (select from known where stream = wanted and id = any (ids))
    then
        insert into log (stream, position, day, time, kind, id, score, key, at, version, probability)
            select wanted, was.place + given.place, day_of(was.moment), was.moment, 1, given.id, given.score, given.key,
                coalesce(given.at, was.moment), given.version, given.probability
            from unnest(ids, scores, keys, ats, versions, probabilities) with ordinality
                as given (id, score, key, at, version, probability, place);
        insert into known (stream, id, position, day)
            select wanted, given.id, was.place + given.place, day_of(was.moment)
            from unnest(ids) with ordinality as given (id, place);
        update head set position = was.place + cardinality(ids), time = was.moment where head.stream = wanted;
        return query select 0::smallint, given.probability, given.version
            from unnest(probabilities, versions) with ordinality as given (probability, version, place)
            order by given.place;
        return;
    end if;
    for place in 1 .. cardinality(ids) loop
        select log.score, log.key, log.at, log.probability, log.version into first
            from known join log on log.stream = wanted and log.day = known.day and log.position = known.position
            where known.stream = wanted and known.id = ids[place];
        if not found then
            added := added + 1;
            insert into log (stream, position, day, time, kind, id, score, key, at, version, probability)
                values (wanted, was.place + added, day_of(was.moment), was.moment, 1, ids[place], scores[place],
                    keys[place], coalesce(ats[place], was.moment), versions[place], probabilities[place]);
            insert into known (stream, id, position, day)
                values (wanted, ids[place], was.place + added, day_of(was.moment));
            return query select 0::smallint, probabilities[place], versions[place];
        elsif scores[place] = first.score and keys[place] is not distinct from first.key
            and (ats[place] is null or ats[place] = first.at)
        then
            return query select 1::smallint, first.probability, first.version;
        else
            return query select 2::smallint, first.probability, first.version;
        end if;
    end loop;
    update head set position = was.place + added, time = was.moment where head.stream = wanted;
end $$;

-- Append outcomes, with what their receipt says if the prediction was not logged. They are logged as they come: the
-- learner recognizes repeated ones.
create function append_outcomes(
    wanted integer, ids uuid[], labels smallint[], ats bigint[], scores double precision[], keys text[],
    predicted bigint[], versions integer[], probabilities double precision[]
) returns bigint
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    was record;
begin
    was := lock_head(wanted);
    insert into log (
        stream, position, day, time, kind, id, label, at, score, key, predicted, version, probability
    )
    select wanted, was.place + given.place, day_of(was.moment), was.moment,
        case when given.score is null then 2 else 3 end, given.id, given.label, coalesce(given.at, was.moment),
        given.score, given.key, given.predicted, given.version, given.probability
    from unnest(ids, labels, ats, scores, keys, predicted, versions, probabilities) with ordinality
        as given (id, label, at, score, key, predicted, version, probability, place);
    update head set position = was.place + cardinality(ids), time = was.moment where head.stream = wanted;
    return was.place + cardinality(ids);
end $$;

-- Append one entry without rows: a tick (4), which only says what time it is, or an action (5).
create function append_entry(wanted integer, what smallint, content text) returns bigint
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    was record;
begin
    was := lock_head(wanted);
    insert into log (stream, position, day, time, kind, document)
        values (wanted, was.place + 1, day_of(was.moment), was.moment, what, content);
    update head set position = was.place + 1, time = was.moment where head.stream = wanted;
    return was.place + 1;
end $$;
