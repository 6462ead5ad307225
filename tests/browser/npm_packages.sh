# npm_packages NODE: makes sure of node from that version on and of viz/page/node_modules; sourced. Leaves with 77,
# which ctest takes for skipped.
skip() {
  echo "skipped: $*"
  exit 77
}
npm_packages() {
  command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
  [ "$(node -p 'process.versions.node.split(".")[0] >= '"$1")" = true ] || skip "node $(node --version) is older than $1"
  [ -x viz/page/node_modules/.bin/esbuild ] && [ -d viz/page/node_modules/playwright-core ] && return
  if [ "${FORESHARD_NO_INSTALL:-0}" = 1 ]; then skip "viz/page/node_modules is missing (FORESHARD_NO_INSTALL is set)"; fi
  local said
  said=$(cd viz/page && npm ci --no-audit --no-fund --fetch-retries 1 2>&1) ||
    skip "npm ci did not work in viz/page: $(grep -i 'err' <<<"$said" | head -n 3 | tr '\n' ' ')"
}
