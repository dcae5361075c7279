#!/bin/sh
# Starts a cluster of three nodes on this machine, until it is interrupted: run.sh [DIRECTORY]
# The nodes are a, b and c. Each has a home and a socket in the directory, which is a new one by default.
set -eu
kernos=${KERNOS:-kernos}
dir=${1:-$(mktemp -d)}
ports=${PORTS:-7431 7432 7433 7441 7442 7443}
# shellcheck disable=SC2086 # the ports are words
set -- $ports
peers=127.0.0.1:$4,127.0.0.1:$5,127.0.0.1:$6
umask 077
mkdir -p "$dir"
secret=$dir/cluster.secret
[ -e "$secret" ] || KERNOS_HOME="$dir/a" "$kernos" cluster init --cluster-secret "$secret"

nodes=
# shellcheck disable=SC2086 # the processes are words
trap 'trap - INT TERM EXIT; [ -z "$nodes" ] || kill $nodes; wait' INT TERM EXIT
for node in a b c; do
	mkdir -p "$dir/run-$node"
	KERNOS_HOME="$dir/$node" XDG_RUNTIME_DIR="$dir/run-$node" "$kernos" serve --addr "127.0.0.1:$1" \
		--cluster-listen "127.0.0.1:$4" --cluster-peers "$peers" --cluster-secret "$secret" --cluster-name "$node" \
		>"$dir/$node.log" 2>&1 &
	nodes="$nodes $!"
	shift
done
cat <<TEXT
Three nodes start. To use one of them, set for node a, and likewise for b and c:

  export KERNOS_HOME=$dir/a XDG_RUNTIME_DIR=$dir/run-a

  kernos cluster status

Their output is in $dir/a.log, b.log and c.log. An interrupt stops all of them.
TEXT
wait
