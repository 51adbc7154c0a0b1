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
