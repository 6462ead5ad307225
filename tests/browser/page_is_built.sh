#!/usr/bin/env bash
# page_is_built.sh SCRATCH: a fresh build of viz/page gives the bytes of viz/page/dist/page.html, and its types hold.
set -euo pipefail
. tests/browser/npm_packages.sh
npm_packages 18
mkdir -p "$1"
(cd viz/page && npx --no-install tsc --noEmit)
node viz/page/build.mjs "$1/page.html"
cmp "$1/page.html" viz/page/dist/page.html || {
  echo "viz/page/dist/page.html is not what its sources build: run npm run build in viz/page"
  exit 1
}
