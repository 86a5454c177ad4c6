#!/bin/bash
# Runs BuildGrid with a PostgreSQL of its own in the foreground, for tests.
#
#   server.sh SITE_DIR WORK_DIR PORT
#
# SITE_DIR   where `pip install --target` has put buildgrid and psycopg2-binary
# WORK_DIR   gets the contents (cas/), the configuration and the logs; they stay. PostgreSQL has a directory of its own, which does not
# PORT       on 127.0.0.1; nothing else listens on TCP
#
# Prints `ready grpc://127.0.0.1:PORT` when requests are answered. Ends, and ends both servers, on SIGTERM, SIGINT or SIGHUP, when the
# pipe that is its standard input is closed, and when one of the servers ends. If it is killed, the kernel ends the servers.
#
# Environment:
#   POSTGRES_BIN      directory of initdb and postgres
#   POSTGRES_USER     user who runs them if this is root's script (postgres, otherwise nobody)
#   BUILDGRID_PYTHON  interpreter (python3)
#   BUILDGRID_RESTART     if it is set, BuildGrid is started again when it is killed, with the jobs that PostgreSQL has; `ready` is
#                         printed again. Otherwise the script ends
#   BUILDGRID_VERBOSE     if it is set, buildgrid.log has more
#   BUILDGRID_TLS         directory with key.pem and certificate.pem: the server speaks TLS
#   BUILDGRID_PROPERTIES  more names of platform properties that actions may have
set -u

if [ $# -ne 3 ]; then
    echo "usage: server.sh SITE_DIR WORK_DIR PORT" >&2
    exit 2
fi
mkdir -p "$2" || exit 1
site=$(cd "$1" && pwd) || exit 1
work=$(cd "$2" && pwd) || exit 1
port=$3
bin=${POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
python=${BUILDGRID_PYTHON:-python3}

fail() { echo "server.sh: $*" >&2; exit 1; }

case $port in *[!0-9]* | '') fail "no port: $port" ;; esac
[ -x "$bin/initdb" ] && [ -x "$bin/postgres" ] || fail "no PostgreSQL in $bin"
[ -d "$site/buildgrid" ] || fail "no buildgrid in $site"

# The name of a socket has at most 107 bytes, and the other user cannot go below a private WORK_DIR.
database=$(mktemp -d "${TMPDIR:-/tmp}/bg-pg.XXXXXX") || exit 1
[ ${#database} -le 80 ] || fail "TMPDIR is too long for a socket"
postgres='' server='' watcher=''

cleanup() {
    trap '' TERM INT HUP
    trap - EXIT
    [ -n "$watcher" ] && kill "$watcher" 2>/dev/null
    # What it keeps is whole at any time, and to be asked to stop takes it seconds.
    [ -n "$server" ] && kill -KILL "$server" 2>/dev/null
    # "Immediate" shutdown: its data are removed anyway.
    [ -n "$postgres" ] && kill -QUIT "$postgres" 2>/dev/null
    wait 2>/dev/null
    rm -rf "$database"
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT
trap 'exit 129' HUP

# Someone who holds the other end of the pipe and goes away takes this along.
if [ -p /dev/stdin ] || [ -S /dev/stdin ]; then
    exec 3<&0
    { while read -r -n 4096 -u 3 _; do :; done; kill -TERM $$; } 2>/dev/null &
    watcher=$!
    exec 3<&-
fi
exec </dev/null

as_user=()
if [ "$(id -u)" = 0 ]; then
    user=${POSTGRES_USER:-$(id -un postgres 2>/dev/null || echo nobody)}
    group=$(id -gn "$user") || fail "no user $user"
    chown "$user:$group" "$database"
    as_user=(--reuid "$user" --regid "$group" --clear-groups)
fi
chmod 700 "$database"
cd / || exit 1

connection="postgresql+psycopg2://buildgrid@/postgres?host=$database"

more=''
for name in ${BUILDGRID_PROPERTIES:-}; do more="$more, $name"; done
security='insecure-mode: true'
if [ -n "${BUILDGRID_TLS:-}" ]; then
    security="insecure-mode: false
    credentials:
      tls-server-key: $BUILDGRID_TLS/key.pem
      tls-server-cert: $BUILDGRID_TLS/certificate.pem"
fi
cat >"$work/config.yml" <<YAML
# Made by server.sh.
server:
  - !channel
    address: 127.0.0.1:$port
    $security
grpc-server-options:
  # A port that another server has is an error.
  grpc.so_reuseport: 0
# A stream of Execute and a bot that waits take one each.
thread-pool-size: 40
server-reflection: false
connections:
  - !sql-connection &database
    connection-string: $connection
    pool-size: 10
    max-overflow: 40
storages:
  - !disk-storage &contents
    path: $work/cas
caches:
  - !lru-action-cache &results
    storage: *contents
    max-cached-refs: 100000
    allow-updates: true
    cache-failed-actions: true
schedulers:
  - !sql-scheduler &jobs
    storage: *contents
    sql: *database
    action-cache: *results
    # Notifications wake streams and bots; this is only how often they are looked for.
    poll-interval: 0.1
    bot-poll-interval: 0.1
    # A bot that died: its job goes to another one.
    bot-session-keepalive-timeout: 10
    session-expiry-timer-interval: 1
    max-job-attempts: 3
    property-set: !dynamic-property-set
      # An action with another property is refused. Bots need not have these.
      wildcard-property-keys: [belljar-toolchain$more]
    assigners:
      - !priority-age-assigner
        name: assigner
        count: 1
        # All of these are a second or more otherwise; a job would wait for them.
        interval: 0.05
        jitter-factor: 0
        failure-backoff: 0.2
instances:
  - name: ''
    services:
      - !cas
        storage: *contents
      - !bytestream
        storage: *contents
      - !action-cache
        cache: *results
      - !execution
        scheduler: *jobs
        endpoints: [execution, operations, bots]
YAML

# One process makes the tables and serves, and is loaded while PostgreSQL starts.
cat >"$work/serve.py" <<'PYTHON'
import os, sys, time
from buildgrid.server.app import cli
import buildgrid.server.app.commands.cmd_migrate, buildgrid.server.app.commands.cmd_server
from buildgrid.server.app.settings import parser

# To check this small configuration, which is always the same, against the schema takes two seconds.
parser.validate_config_value = lambda *args, **named: None

ready, connection, pid_file, config = sys.argv[1:5]
while not os.path.exists(ready):
    time.sleep(0.02)
cli(["migrate", "apply", connection], standalone_mode=False)
cli(["server", "start", *sys.argv[5:], "--pid-file", pid_file, config])
PYTHON
export PYTHONPATH="$site" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
start_server() {
    rm -f "$work/buildgrid.pid"
    setpriv --pdeathsig KILL "$python" "$work/serve.py" "$database/ready" "$connection" "$work/buildgrid.pid" "$work/config.yml" \
        ${BUILDGRID_VERBOSE:+-v} >>"$work/buildgrid.log" 2>&1 &
    server=$!
}
: >"$work/buildgrid.log"
start_server

setpriv "${as_user[@]}" --pdeathsig KILL env -u LD_LIBRARY_PATH LC_ALL=C "$bin/initdb" -D "$database/data" -A trust -U buildgrid \
    -E UTF8 --no-locale --no-sync --no-instructions >"$work/initdb.log" 2>&1 &
wait $! || { cat "$work/initdb.log" >&2; fail "initdb failed"; }

setpriv "${as_user[@]}" --pdeathsig QUIT env LC_ALL=C "$bin/postgres" -D "$database/data" -k "$database" -F \
    -c listen_addresses= -c full_page_writes=off -c synchronous_commit=off -c autovacuum=off -c max_connections=100 \
    -c shared_buffers=16MB -c dynamic_shared_memory_type=mmap >"$work/postgres.log" 2>&1 &
postgres=$!
for ((i = 0; ; i++)); do
    "$bin/pg_isready" -q -h "$database" -U buildgrid -d postgres && break
    kill -0 "$postgres" 2>/dev/null && [ $i -lt 600 ] || { cat "$work/postgres.log" >&2; fail "PostgreSQL does not start"; }
    sleep 0.05
done

touch "$database/ready"

while :; do
    for ((i = 0; ; i++)); do
        [ -s "$work/buildgrid.pid" ] && break
        kill -0 "$server" 2>/dev/null && [ $i -lt 1200 ] || { tail -n 20 "$work/buildgrid.log" >&2; fail "BuildGrid does not start"; }
        sleep 0.05
    done
    echo "ready grpc://127.0.0.1:$port"
    { wait -n "$server" "$postgres"; code=$?; } 2>/dev/null
    if [ -n "${BUILDGRID_RESTART:-}" ] && kill -0 "$postgres" 2>/dev/null; then
        start_server
    else
        fail "a server ended with code $code; see $work"
    fi
done
