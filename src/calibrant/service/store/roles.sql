-- Rights of the database roles, set again at the end of each run of migrations. The roles are groups without a login:
-- give them to the users by whom the processes connect. Where the migrating user may not create roles and they do not
-- exist, nothing is granted, and only the owner of the schema can use it.
do $$
declare
    called text;
    made text;
    wanted record;
begin
    foreach called in array array['calibrant_serve', 'calibrant_learn'] loop
        if not exists (select from pg_roles where rolname = called) then
            begin
                execute format('create role %I nologin', called);
            exception
                when insufficient_privilege or duplicate_object or unique_violation then null;
            end;
        end if;
    end loop;
    execute format('revoke execute on all functions in schema %I from public', current_schema());
    for wanted in
        select * from (values
            -- Who serves: appends predictions and outcomes, reads what is served and reported, and asks about tokens.
            ('calibrant_serve', 'function',
                '{day_of,key_number,oldest_unlearned,append_predictions,append_outcomes,log_outcomes,find_token,act,'
                'open_stream,issue_token,rotate_token,revoke_token,list_tokens,list_audit,open_session,close_session,erase_by}'),
            ('calibrant_serve', 'select', '{stream,head,learner,settings,version,promotion,canary,report,daily,migration}'),
            -- Who learns: reads the log, and writes what follows from it.
            ('calibrant_learn', 'function', '{day_of,key_number,append_entry,drop_days,erase_entries,check_epoch}'),
            ('calibrant_learn', 'select',
                '{stream,head,log,learner,settings,checkpoint,version,promotion,canary,report,daily,key_name,epoch,'
                'migration}'),
            ('calibrant_learn', 'insert', '{checkpoint,version,promotion,canary,report,daily,key_name}'),
            ('calibrant_learn', 'update', '{learner,report,daily}'),
            ('calibrant_learn', 'delete', '{checkpoint}')
        ) as listed (role, kind, names)
    loop
        continue when not exists (select from pg_roles where rolname = wanted.role);
        execute format('grant usage on schema %I to %I', current_schema(), wanted.role);
        for made in
            select oid::regprocedure::text from pg_proc
            where pronamespace = current_schema()::regnamespace and wanted.kind = 'function'
                and proname = any (wanted.names::text[])
            union all
            select oid::regclass::text from pg_class
            where relnamespace = current_schema()::regnamespace and wanted.kind <> 'function'
                and relname = any (wanted.names::text[])
        loop
            if wanted.kind = 'function' then
                execute format('grant execute on function %s to %I', made, wanted.role);
            else
                execute format('grant %s on %s to %I', wanted.kind, made, wanted.role);
            end if;
        end loop;
    end loop;
end $$;
