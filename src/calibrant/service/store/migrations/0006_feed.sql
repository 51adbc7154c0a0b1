-- Outcomes as before. A row without an id is the feed's word that all outcomes of rows due up to its time were sent: it is
-- logged as an action, after the outcomes that came with it.
create or replace function append_outcomes(
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
        stream, position, day, time, kind, id, label, at, score, key, predicted, version, probability, document
    )
    select wanted, was.place + given.place, day_of(was.moment), was.moment,
        case when given.id is null then 5 when given.score is null then 2 else 3 end, given.id, given.label,
        coalesce(given.at, was.moment), given.score, given.key, given.predicted, given.version, given.probability,
        case when given.id is null then format('{"action": "complete", "until": %s}', given.at) end
    from unnest(ids, labels, ats, scores, keys, predicted, versions, probabilities) with ordinality
        as given (id, label, at, score, key, predicted, version, probability, place);
    update head set position = was.place + cardinality(ids), time = was.moment where head.stream = wanted;
    return was.place + cardinality(ids);
end $$;

-- The first day that a stream still needs: entries are kept for the days of its settings, until their rows are released,
-- learned and forgotten, and while a row of them waits, which a client may have dated ahead by the skew.
create or replace function first_needed(wanted integer) returns date
    language plpgsql stable security definer set search_path from current as $$
begin
    return (select day_of(least(
        report.time - 1000000 * ceil(greatest(
            86400 * coalesce((chosen.document::json ->> 'retention_days')::numeric, 90),
            (chosen.document::json ->> 'horizon')::numeric
                + coalesce(chosen.document::json ->> 'remember', chosen.document::json ->> 'horizon')::numeric
        ))::bigint,
        (report.document::json -> 'feed' ->> 'oldest')::bigint
            - 1000000 * ceil(coalesce((chosen.document::json ->> 'skew')::numeric, 300))::bigint
    ))
    from report, settings as chosen
    where report.stream = wanted and chosen.stream = wanted and chosen.position <= report.position
    order by chosen.position desc limit 1);
end $$;
