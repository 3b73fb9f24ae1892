#!/bin/sh
# A standby: at its first start a copy of the primary, from then on what it was, also once it is promoted.
set -eu
umask 077
printf '%s:*:*:replication:%s\n' "$PRIMARY" "$(cat "$PASSWORD_FILE")" > "$PGPASSFILE"  # looked up at every connection
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    pg_basebackup --pgdata="$PGDATA" --checkpoint=fast --wal-method=stream --write-recovery-conf \
        --dbname="host=$PRIMARY user=replication application_name=standby passfile=$PGPASSFILE connect_timeout=5"
    # Copied from the primary, and not for this one: once promoted it has no standby yet.
    echo "synchronous_standby_names = ''" >> "$PGDATA/postgresql.auto.conf"
fi
exec "$@"
