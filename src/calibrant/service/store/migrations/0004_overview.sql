-- For pages and metrics: how long the oldest entry waits that is not learned. A tick only says what time it is, and the
-- last one is never learned, so ticks do not count.
create function oldest_unlearned(wanted integer) returns bigint
    language plpgsql stable security definer set search_path from current as $$
begin
    return (
        select log.time from log
        join learner on learner.stream = wanted
        where log.stream = wanted and log.position > learner.position and log.kind <> 4
            and log.day >= (
                select coalesce(min(day_of(report.time)), '-infinity'::date) from report
                where report.stream = wanted and report.position <= learner.position
            )
        order by log.position limit 1
    );
end $$;
