#!/bin/sh
# usage: script_test.sh TREE. What ./rungs decides before it builds anything, on machines that are played by
# fake programs in PATH. Every check that fails prints what was seen.
set -eu
tree=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/tree
mkdir -p "$copy" "$work/bin" "$work/full/include" "$work/full/lib"
cp "$tree/rungs" "$tree/CMakePresets.json" "$tree/VERSION" "$copy/"

failures=0
checks=0

# expect NAME STATUS WORDS COMMAND...: the command ends with STATUS and its output holds WORDS.
expect() {
  name=$1 wanted=$2 words=$3
  shift 3
  checks=$((checks + 1))
  status=0
  output=$("$@" 2>&1 </dev/null) || status=$?
  if [ "$status" -ne "$wanted" ] || ! printf '%s' "$output" | grep -q -F -e "$words"; then
    failures=$((failures + 1))
    printf '%s: expected status %s and "%s", got status %s:\n%s\n' "$name" "$wanted" "$words" "$status" "$output"
  fi
}

# fake NAME BODY: a program of that name for PATH.
fake() {
  printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# A machine where every library is there, one where none is, both with the compiler of this one.
for header in fmt/format.h hwloc.h pugixml.hpp infiniband/mlx5dv.h spdlog/spdlog.h nlohmann/json.hpp CLI/CLI.hpp gtest/gtest.h benchmark/benchmark.h; do
  mkdir -p "$work/full/include/$(dirname $header)"
  : >"$work/full/include/$header"
done
: >"$work/full/lib/libboost_context.so"
fake uname 'echo x86_64'
fake nvidia-smi 'exit 9'
fake nvcc 'exit 9'
on() { env PATH="$work/bin:$PATH" CUDA_HOME="$work/none" CUDACXX='' CMAKE_PREFIX_PATH='' RUNGS_PRESET='' "$@"; }
full() { on RUNGS_SYSTEM_PREFIXES="$work/full" "$@"; }
bare() { on RUNGS_SYSTEM_PREFIXES="$work/none" "$@"; }

expect 'help before a build'      0 './rungs tour'              full "$copy/rungs" --help
expect 'no arguments'             0 './rungs test'              full "$copy/rungs"
expect 'help of test'             0 'ARGS go to ctest'          full "$copy/rungs" test --help
expect 'help tells the statuses'  0 'Exit status: 0'            full "$copy/rungs" --help
expect 'unknown word'             2 "no command 'tuor'; did you mean 'tour'?" full "$copy/rungs" tuor
expect 'beginning of a word'      2 "did you mean 'doctor'?"    full "$copy/rungs" doc
expect 'nonsense'                 2 "no command 'xylophone'. Commands: tour" full "$copy/rungs" xylophone
expect 'unknown option'           2 "no command '--qick'. "     full "$copy/rungs" --qick
expect 'version before a build'   0 "rungs $(cat "$tree/VERSION") (not built yet)" full "$copy/rungs" --version
expect 'doctor with a wrong word' 2 "'--all' is not understood" full "$copy/rungs" doctor --all
expect 'doctor before a build'    0 'not built yet'             full "$copy/rungs" doctor
expect 'doctor counts packages'   0 'installs them: libfmt-dev' bare "$copy/rungs" doctor
expect 'unknown preset'           2 "RUNGS_PRESET is 'gpu'"     full RUNGS_PRESET=gpu "$copy/rungs" tour
ln -s "$copy/rungs" "$work/link"
expect 'through a link'           0 './rungs tour'              full "$work/link" --help

# A program that is there answers what needs no build.
mkdir -p "$copy/build/emulated/cli"
printf '#!/bin/sh\necho "program: $*"\n' >"$copy/build/emulated/cli/rungs"
chmod +x "$copy/build/emulated/cli/rungs"
expect 'version after a build'    0 'program: --version'        full "$copy/rungs" --version
expect 'unknown word, built'      0 'program: tuor'             full "$copy/rungs" tuor

# Another user's build: what is wrong and what to do, instead of a lock's raw error. Root may write
# anywhere, so it plays somebody else.
chmod -R a+rX "$work"
somebody() { on RUNGS_SYSTEM_PREFIXES="$work/full" setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
if [ "$(id -u)" -ne 0 ]; then
  chmod a-w "$copy/build/emulated"
  somebody() { full "$@"; }
fi
if [ "$(id -u)" -ne 0 ] || command -v setpriv >/dev/null; then
  expect 'another user built'     1 "cannot write to $copy/build/emulated, which belongs to" somebody "$copy/rungs" tour
  expect 'how to take it over'    1 'sudo chown -R '            somebody "$copy/rungs" tour
  expect 'what is built runs'     1 "$copy/build/emulated/cli/rungs tour" somebody "$copy/rungs" tour
  chmod u+w "$copy/build/emulated"
else
  echo 'skipped: another user built (no setpriv to play one)'
fi
rm -r "$copy/build"

# Which preset.
dry() { full RUNGS_DRY_RUN=1 "$copy/rungs" tour; }
expect 'no GPU'                   0 'would build: emulated (no usable GPU' dry
fake nvidia-smi 'echo "NVIDIA H200, 9.0"'
expect 'GPU, no nvcc'             0 'would build: emulated (NVIDIA H200 is here, but no nvcc' dry
fake nvcc 'echo "Cuda compilation tools, release 12.4, V12.4.1"'
expect 'GPU, old nvcc'            0 'would build: emulated (NVIDIA H200 is here, but no nvcc' dry
fake nvcc 'echo "Cuda compilation tools, release 13.0, V13.0.88"'
expect 'GPU and nvcc'             0 'would build: cuda (NVIDIA H200 answers' dry
fake nvidia-smi 'echo "Tesla V100, 7.0"'
expect 'old GPU'                  0 'would build: emulated (no usable GPU' dry
fake nvidia-smi 'echo "NVIDIA-SMI has failed because it could not communicate with the driver" >&2; exit 9'
expect 'nvcc, broken driver'      0 'would build: emulated (no usable GPU' dry
expect 'preset by hand'           0 'would build: cuda (RUNGS_PRESET' \
  full RUNGS_PRESET=cuda RUNGS_DRY_RUN=1 "$copy/rungs" tour

# Missing packages: named exactly; installed only with rights that ask nothing.
all='libfmt-dev libhwloc-dev libpugixml-dev libibverbs-dev libspdlog-dev nlohmann-json3-dev libcli11-dev libgtest-dev libbenchmark-dev'
expect 'names what is missing'    0 "would install: $all"       bare RUNGS_DRY_RUN=1 "$copy/rungs" tour
fake uname 'echo aarch64'
expect 'Boost where it is used'   0 "would install: $all libboost-context-dev" bare RUNGS_DRY_RUN=1 "$copy/rungs" tour
fake uname 'echo x86_64'
rm "$work/full/include/CLI/CLI.hpp"
expect 'only what is missing'     0 'would install: libcli11-dev' full RUNGS_DRY_RUN=1 "$copy/rungs" tour
mkdir -p "$copy/.deps/usr/include/CLI"
: >"$copy/.deps/usr/include/CLI/CLI.hpp"
expect 'found in .deps'           0 'would build'               full RUNGS_DRY_RUN=1 "$copy/rungs" tour
rm -r "$copy/.deps"

fake apt-get "echo called >>'$work/apt-calls'; exit 1"
fake id 'echo 1000'
fake sudo 'exit 1'
expect 'no rights: says the command' 1 \
  'sudo apt-get update && sudo apt-get install -y --no-install-recommends libcli11-dev' full "$copy/rungs" tour
checks=$((checks + 1))
if [ -e "$work/apt-calls" ]; then
  failures=$((failures + 1))
  echo 'no rights: apt-get was called all the same'
fi
fake id 'echo 0'
fake apt-get "echo \"\$*\" >>'$work/apt-calls'; case \"\$*\" in install*CLI*) exit 1;; *update*) exit 0;; *-s*) exit 1;; esac
mkdir -p '$work/full/include/CLI'; : >'$work/full/include/CLI/CLI.hpp'"
# Goes on to configure, where this copy has no CMakeLists.txt.
expect 'root: installs, goes on' 1 'cmake emulated failed' full "$copy/rungs" tour
checks=$((checks + 1))
if ! grep -q -x -F -e 'update' "$work/apt-calls" ||
   ! grep -q -e '^install -y --no-install-recommends libcli11-dev ' "$work/apt-calls"; then
  failures=$((failures + 1))
  echo 'root: expected an update and one install of libcli11-dev, apt-get saw:'
  cat "$work/apt-calls"
fi

# ctest says 8 when tests fail; ./rungs says 1 for every failed check.
fake cmake 'echo "cmake version 3.28.1"'
fake ctest 'echo "1 of 2 tests failed"; exit 8'
expect 'failed tests'             1 '1 of 2 tests failed'       full "$copy/rungs" test
fake ctest 'exit 0'
expect 'passed tests'             0 'Building emulated'         full "$copy/rungs" test
rm "$work/bin/cmake" "$work/bin/ctest"

# A registry that does not answer stops only what cannot go on.
fake apt-get 'exit 100'
rm "$work/full/include/gtest/gtest.h"
expect 'tour without GoogleTest'  1 'Goes on without GoogleTest' full "$copy/rungs" tour
expect 'test without GoogleTest'  1 'could not install: libgtest-dev' full "$copy/rungs" test

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
