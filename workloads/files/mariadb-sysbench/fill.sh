#!/bin/sh
# Makes MariaDB's data directory and has sysbench fill its tables, on a server that runs natively for that long.
# fill.sh DIRECTORY TABLES ROWS BUFFERS
set -eu
data=$1/data
mariadb-install-db --no-defaults --user=root --datadir="$data" --auth-root-authentication-method=normal --skip-test-db >/dev/null
mariadbd --no-defaults --user=root --datadir="$data" --socket="$1/fill.sock" --skip-networking --innodb-log-file-size=16M \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size="$4" --pid-file="$1/fill.pid" &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
tries=0
until mariadb --no-defaults --socket="$1/fill.sock" -uroot -e 'create database if not exists sbtest' 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 120 ] || { echo "the server did not serve within 60 s" >&2; exit 1; }
    sleep 0.5
done
sysbench oltp_read_only --db-driver=mysql --mysql-socket="$1/fill.sock" --mysql-user=root --mysql-db=sbtest \
    --tables="$2" --table-size="$3" prepare
kill $server
wait $server || true
trap - EXIT
rm -f "$data"/ib_buffer_pool
