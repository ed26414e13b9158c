#!/usr/bin/env bash
# check_format.sh [--fix]: every C++ file of the project as .clang-format says.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[[ "${1:-}" == --fix ]] && mode=(-i)
git ls-files 'src/*.h' 'src/*.cc' 'include/*.h' 'tests/*.h' 'tests/*.cc' 'examples/*.cc' |
  grep -v 'unicode_tables.cc' | xargs clang-format "${mode[@]}"
