#!/usr/bin/env bash
# test.sh: from a fresh clone to a passed test suite: installs what is missing, builds, tests.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_dependencies.sh --tests
cmake --preset dev >/dev/null
cmake --build --preset dev
ctest --preset dev "$@"
