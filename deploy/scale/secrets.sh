#!/bin/sh
# Makes the folder `secrets` beside this file, as root: each file belongs to the user of the container that reads it.
# sh deploy/scale/secrets.sh TLS_PEM PROVISIONER_TOKEN
#   TLS_PEM            the certificate chain and its key, in one file, for the load balancer
#   PROVISIONER_TOKEN  the file with the provider's token that may make instances
set -eu
umask 077
tls_pem=$(realpath "$1")
provisioner_token=$(realpath "$2")
mkdir "$(dirname "$0")/secrets"
cd "$(dirname "$0")/secrets"
receiver=10001 worker=10002 both=10001 balancer=99 postgres=999 redis=999

install -m 0400 -o "$balancer" "$tls_pem" tls.pem
install -m 0400 "$provisioner_token" provisioner_token
for key in receiver_key worker_key; do openssl rand -base64 32 | tr '+/' '-_' > $key; done
echo "whsec_$(openssl rand -base64 32)" > wake_secret
for name in owner receiver worker replication queue postgres; do openssl rand -hex 24 > ${name}_password; done
{
    echo "ALTER ROLE wakegate PASSWORD '$(cat owner_password)';"
    echo "ALTER ROLE wakegate_receiver PASSWORD '$(cat receiver_password)';"
    echo "ALTER ROLE wakegate_worker PASSWORD '$(cat worker_password)';"
    echo "ALTER ROLE replication PASSWORD '$(cat replication_password)';"
} > passwords.sql
may='+ping +info +select +sadd +srem +smembers +llen +evalsha +eval +script|load +exists +hset +expire +ttl +rpush +ltrim +lrem +del +blpop +multi +exec'
{
    echo 'user default off'
    echo "user wakegate on #$(tr -d '\n' < queue_password | sha256sum | cut -d' ' -f1) ~rq:* &none -@all $may"
} > queue.acl

chown "$receiver" receiver_key receiver_password owner_password
chown "$worker" worker_key wake_secret worker_password
chown "0:$both" queue_password && chmod 0440 queue_password
chown "$postgres" postgres_password replication_password passwords.sql
chown "$redis" queue.acl
