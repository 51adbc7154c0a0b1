-- What the learner tells about each stream, written in its fenced commits. Documents are JSON.

-- The newest figures.
create table report (
    stream integer primary key references stream,
    position bigint not null,
    time bigint not null,
    document text not null
);

-- Figures of the predictions of each day (UTC); kept when the log of the day is dropped.
create table daily (
    stream integer not null references stream,
    day date not null,
    document text not null,
    primary key (stream, day)
);

-- A key as a number of 64 bits, the first 8 bytes of its SHA-256: the same in every version of the database.
create function key_number(key text) returns bigint
    language sql immutable strict parallel safe
    return ('x' || substr(encode(sha256(convert_to(key, 'UTF8')), 'hex'), 1, 16))::bit(64)::bigint;

-- The text of keys whose sums the learner keeps.
create table key_name (
    stream integer not null references stream,
    number bigint not null,
    name text not null,
    primary key (stream, number)
);

-- Restores of this database from a backup, and the server on which it was seen last.
create table epoch (
    number integer primary key,
    system bigint not null,
    timeline integer not null,
    at timestamptz not null default now()
);

-- Server and timeline of this database. The timeline is that of the next entry of the write-ahead log: the control file
-- has the one before until the first checkpoint after a standby was promoted.
create function this_server(out system bigint, out timeline integer)
    language sql
    begin atomic
        select found.system_identifier, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer
        from pg_control_system() as found;
    end;
insert into epoch select 0, this.system, this.timeline from this_server() as this;

-- A new stream, whose first entry says its settings. After a restore the epoch comes next: there may have been a stream
-- with this name and number which the backup does not know.
create function create_stream(called text, settings text) returns integer
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    made integer;
    present integer;
begin
    lock table epoch in share mode;  -- an epoch that begins meanwhile finds the stream, or is found here
    insert into stream (name) values (called) returning stream into made;
    insert into head (stream, position, time) values (made, 0, 0);
    insert into learner (stream, fence, position) values (made, 0, 0);
    perform append_entry(made, 5::smallint, settings);
    select max(number) into present from epoch;
    if present > 0 then
        perform append_entry(made, 5::smallint, format('{"action": "epoch", "number": %s}', present));
    end if;
    return made;
end $$;

-- A new epoch. Each stream logs it, so that numbers of versions which the backup does not know are not used again. Its
-- number is at least the count of days since 2020, so that two restores from one backup differ, unless on one day.
create function raise_epoch() returns integer
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    raised integer;
    each integer;
begin
    lock table epoch in exclusive mode;
    select greatest(max(number) + 1, (now() at time zone 'UTC')::date - date '2020-01-01') into raised from epoch;
    insert into epoch select raised, this.system, this.timeline from this_server() as this;
    update learner set fence = fence + 1;
    for each in select stream from stream order by stream loop
        perform append_entry(each, 5::smallint, format('{"action": "epoch", "number": %s}', raised));
    end loop;
    return raised;
end $$;

-- The epoch; a new one if the database is on another server or timeline than before.
create function check_epoch() returns integer
    language plpgsql security definer set search_path from current as $$
declare
    last record;
    this record := this_server();
begin
    lock table epoch in exclusive mode;
    select * into last from epoch order by number desc limit 1;
    if last.system = this.system and last.timeline = this.timeline then
        return last.number;
    end if;
    return raise_epoch();
end $$;

-- Begin to erase an id: it is free at once, and the learner removes it from the log and from stored states.
create function erase_id(wanted integer, erased uuid) returns bigint
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    place bigint := append_entry(wanted, 5::smallint, format('{"action": "erase", "id": "%s", "to": "%s"}',
        replace(erased::text, '-', ''), replace(gen_random_uuid()::text, '-', '')));
begin
    delete from known where stream = wanted and id = erased;
    return place;
end $$;

-- Replace an id in the log up to a position, and remove its key; the text of the key and of the action go too. The
-- caller holds the fence of the stream.
create function erase_entries(wanted integer, held bigint, up_to bigint, erased uuid, instead uuid) returns void
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
    perform from learner where stream = wanted and fence = held for update;
    if not found then
        raise exception 'another learner has this stream' using errcode = 'insufficient_privilege';
    end if;
    delete from key_name where stream = wanted and name in (
        select key from log where stream = wanted and id = erased and position <= up_to and key is not null
    );
    update log set id = instead, key = null where stream = wanted and id = erased and position <= up_to;
    update log set document = '{"action": "erase"}' where stream = wanted and position = up_to;
end $$;

-- The first day that a stream still needs: entries are kept for the days of its settings, and until their rows are
-- released, learned and forgotten.
create function first_needed(wanted integer) returns date
    language plpgsql stable security definer set search_path from current as $$
begin
    return (select day_of(report.time - 1000000 * ceil(greatest(
        86400 * coalesce((chosen.document::json ->> 'retention_days')::numeric, 90),
        (chosen.document::json ->> 'horizon')::numeric
            + coalesce(chosen.document::json ->> 'remember', chosen.document::json ->> 'horizon')::numeric
    ))::bigint)
    from report, settings as chosen
    where report.stream = wanted and chosen.stream = wanted and chosen.position <= report.position
    order by chosen.position desc limit 1);
end $$;

-- Drop days of the log that no stream needs, oldest first, until the part of one day is gone. A day of a stream is dropped
-- only if a state is stored after its last entry; states before it are removed. Figures of the day, versions and
-- promotions stay. Locks are taken in the order learner, log, part: nobody who has a later one waits for an earlier one.
create function drop_days() returns setof date
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
declare
    part record;
    each record;
    done integer[];
    whole boolean;
begin
    for part in
        select inhrelid::regclass as name, to_date(right(inhrelid::regclass::text, 8), 'YYYYMMDD') as day
        from pg_inherits where inhparent = 'log'::regclass order by 2
    loop
        whole := part.day < (clock_timestamp() at time zone 'UTC')::date;
        done := '{}';
        for each in
            select stream.stream, (
                select max(position) from log where log.stream = stream.stream and day = part.day
            ) as last from stream order by 1
        loop
            continue when each.last is null;
            begin
                perform from learner where stream = each.stream for update;
                if part.day < first_needed(each.stream)
                    and exists (select from checkpoint where stream = each.stream and position >= each.last)
                then
                    delete from checkpoint where stream = each.stream and position < each.last;
                    done := done || each.stream;
                else
                    whole := false;
                end if;
            exception when others then  -- the other streams go on
                whole := false;
                raise warning 'stream % keeps its days: %', each.stream, sqlerrm;
            end;
        end loop;
        if whole then
            begin
                set local lock_timeout = '2s';
                lock table only log in access exclusive mode;
                execute format('lock table %s in access exclusive mode', part.name);
            exception when lock_not_available then
                continue;  -- somebody uses it; it goes the next time
            end;
            -- An entry may have come meanwhile, such as of a stream without any until now.
            execute format('select not exists (select from %s where stream <> all ($1))', part.name)
                into whole using done;
        end if;
        delete from known where stream = any (done) and day = part.day;
        if whole then
            execute format('drop table %s', part.name);
            return next part.day;
            return;  -- the locks end here
        end if;
        delete from log where stream = any (done) and day = part.day;
    end loop;
end $$;
