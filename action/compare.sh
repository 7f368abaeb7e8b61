#!/usr/bin/env bash
# How the loops of SCRIPTS moved from the commit BASE to the working tree, into the file WRITE.
# Exit code as that of fastacct check-loop: 1 if a line breaks a guarantee, 2 for bad input.
set -euo pipefail
read -ra scripts <<< "${SCRIPTS:-.}"
read -ra options <<< "${OPTIONS:-}"
made=$(mktemp -d)
trap 'git worktree remove --force "$made/base" 2> /dev/null || true; rm -rf "$made"' EXIT

before=()
git cat-file -e "$BASE^{commit}" 2> /dev/null || git fetch --quiet --depth=1 origin "$BASE" 2> /dev/null || true
if git worktree add --quiet --detach "$made/base" "$BASE" 2> /dev/null; then
  code=0
  (cd "$made/base" && fastacct check-loop "${scripts[@]}" "${options[@]}" --json) > "$made/before.json" 2> /dev/null || code=$?
  # What is not there yet, or cannot be read there, has no loops.
  if [ "$code" -gt 1 ]; then echo '{"loops": []}' > "$made/before.json"; fi
  before=(--before "$made/before.json")
fi

code=0
fastacct check-loop "${scripts[@]}" "${options[@]}" "${before[@]}" > "$made/text" 2>&1 || code=$?
{
  echo "<!-- fastacct check-loop -->"
  echo "**The epsilon of training loops**, as far as it can be read from the scripts"
  echo
  sed 's/^/    /' "$made/text"
} > "$WRITE"
exit "$code"
