#!/bin/sh
# Run once by the image when it has made the cluster: the roles, who may come in, and that every commit waits for the
# standby from the next start on.
set -eu
psql --set=ON_ERROR_STOP=1 --set=passwords="${PASSWORDS:-/run/secrets/passwords_sql}" --username=postgres \
    --dbname="$POSTGRES_DB" <<'SQL'
CREATE ROLE wakegate LOGIN;
CREATE ROLE wakegate_receiver LOGIN;
CREATE ROLE wakegate_worker LOGIN;
CREATE ROLE replication LOGIN REPLICATION;
\i :passwords
ALTER DATABASE :"DBNAME" OWNER TO wakegate;

-- The owner makes and migrates the tables; the services read and write them, and can neither change nor drop one.
ALTER DEFAULT PRIVILEGES FOR ROLE wakegate
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO wakegate_receiver, wakegate_worker;
-- They only read which migrations there were, and which changes of state there may be.
CREATE FUNCTION withhold() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
    kept TEXT;
BEGIN
    FOREACH kept IN ARRAY ARRAY['migration', 'arrow'] LOOP
        IF to_regclass(kept) IS NOT NULL THEN
            EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON %I FROM wakegate_receiver, wakegate_worker', kept);
        END IF;
    END LOOP;
END $$;
CREATE EVENT TRIGGER withhold ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION withhold();

ALTER SYSTEM SET synchronous_standby_names = 'standby';
SQL
echo 'host replication replication all scram-sha-256' >> "$PGDATA/pg_hba.conf"
