-- Append outcomes as append_outcomes does, and say which of some of them, counted from 1, have an id of no logged
-- prediction. To look all of them up would take about as long as to append them. The old release calls append_outcomes.
create function log_outcomes(
    wanted integer, ids uuid[], labels smallint[], ats bigint[], scores double precision[], keys text[],
    predicted bigint[], versions integer[], probabilities double precision[], looked_up integer[],
    out last bigint, out unknown integer[]
)
    language plpgsql security definer set search_path from current as $$
#variable_conflict use_column
begin
    last := append_outcomes(wanted, ids, labels, ats, scores, keys, predicted, versions, probabilities);
    unknown := array(
        select place from unnest(looked_up) as place
        where not exists (select from known where known.stream = wanted and known.id = ids[place])
    );
end $$;
