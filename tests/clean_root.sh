#!/bin/bash
# usage: clean_root.sh [FOLDER] [-- COMMAND...]
# Tries the two commands where nothing is installed: makes a minimal Debian 12 root in FOLDER (a temporary
# one by default), adds git and nothing else, clones this repository's HEAD into it and runs, in a chroot,
# `./rungs test` and `./rungs tour --quick`, or COMMAND. Needs root and debootstrap; packages come from the
# mirror that this machine uses. Prints how long each step took. A folder that is kept can be used again.
set -euo pipefail
tree=$(cd "$(dirname "$0")/.." && pwd)
folder='' keep=1
if [[ $# -gt 0 && $1 != -- ]]; then
  folder=$1
  shift
fi
if [[ ${1:-} == -- ]]; then shift; fi
[[ $(id -u) == 0 ]] || { echo 'clean_root.sh: chroot needs root'; exit 1; }
command -v debootstrap >/dev/null || { echo 'clean_root.sh: install debootstrap'; exit 1; }
if [[ -z $folder ]]; then
  folder=$(mktemp -d)
  chmod 755 "$folder"  # as / is: tests play other users
  keep=0
fi

clean_up() {
  for mounted in proc dev; do
    if mountpoint -q "$folder/$mounted"; then umount "$folder/$mounted"; fi
  done
  [[ $keep == 1 ]] || rm -rf "$folder"
}
trap clean_up EXIT

timed() {
  local start=$SECONDS status=0
  "${@:2}" || status=$?
  printf '### %s: status %d, %d s\n' "$1" "$status" $((SECONDS - start))
  return $status
}

# The mirror of this machine, from either form of apt's sources.
mirror=$(find /etc/apt -name '*.list' -exec cat {} + -o -name '*.sources' -exec cat {} + |
         sed -n -e 's/^deb \(\[[^]]*\] *\)\{0,1\}\(http[^ ]*\) .*/\2/p' -e 's/^URIs: *\([^ ]*\).*/\1/p' | sed -n 1p)
[[ -n $mirror ]] || { echo 'clean_root.sh: no mirror in /etc/apt/sources.list*'; exit 1; }

if [[ ! -e $folder/etc/debian_version ]]; then
  timed 'debootstrap' debootstrap --variant=minbase --include=git,ca-certificates bookworm "$folder" "$mirror" \
    >"$folder.log" 2>&1 || { tail -20 "$folder.log"; exit 1; }
  tail -n 1 "$folder.log"
  # How this machine reaches its mirror.
  cp /etc/resolv.conf "$folder/etc/" 2>/dev/null || :
  { grep -l '^ *Acquire' /etc/apt/apt.conf.d/* || :; } | while read -r file; do cp "$file" "$folder/etc/apt/apt.conf.d/"; done
fi
mkdir -p "$folder"/{proc,dev}
mountpoint -q "$folder/proc" || mount -t proc proc "$folder/proc"
mountpoint -q "$folder/dev" || mount --bind /dev "$folder/dev"

rm -rf "$folder/srv/rungs"
git clone -q "$tree" "$folder/srv/rungs"
inside() { chroot "$folder" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"; }
in_tree() { inside sh -c 'cd /srv/rungs && exec "$@"' sh "$@"; }

if [[ $# -gt 0 ]]; then
  timed "$*" in_tree "$@"
else
  timed './rungs --help, nothing built' in_tree ./rungs --help
  timed './rungs test' in_tree ./rungs test
  timed './rungs tour --quick' in_tree ./rungs tour --quick
  timed './rungs --help, a second run' in_tree ./rungs --help
fi
