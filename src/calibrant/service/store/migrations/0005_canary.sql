-- The version that is tried beside the one that is served, in order: the last row counts. Ids whose salted hash is below
-- the share are answered by it; with the share 0 nobody is. No version: nothing is tried. Written by the learner.
create table canary (
    stream integer not null references stream,
    position bigint not null,
    version integer,
    share double precision not null check (share between 0 and 0.5),
    salt bigint not null,
    cause text not null,
    primary key (stream, position)
);
