#!/usr/bin/env bash
# What "make run" does once the binary is built: run.sh BINARY ROOT. Starts a gateway whose files are
# all below ROOT, with the servers that this machine can run, and shows a call through it.
set -euo pipefail

bin=$(realpath "$1")
root=$2
listen=${LISTEN:-127.0.0.1:50005}
mkdir -p "$root/files"

say() { printf '%s\n' "$*"; }
gateway() { "$bin" --root "$root" "$@"; }

# uv, which runs the servers that are Python packages: from PATH, or put into a folder of our own,
# since the system's Python is often closed to pip.
find_uv() {
  command -v uvx >/dev/null && return 0
  command -v python3 >/dev/null || return 1
  if [ ! -x "$root/uv/bin/uvx" ]; then
    say "Installing uv into $root/uv ..."
    rm -rf "$root/uv"
    { python3 -m venv "$root/uv" && "$root/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv; } >"$root/uv.log" 2>&1 ||
      { rm -rf "$root/uv" && python3 -m pip install --quiet --disable-pip-version-check --target "$root/uv" uv; } >>"$root/uv.log" 2>&1 ||
      return 1
  fi
  [ -x "$root/uv/bin/uvx" ] && PATH="$root/uv/bin:$PATH"
}

servers=()
call=()
if find_uv; then
  servers+=('"time": {}' '"fetch": {}')
  call=(get_current_time --arg timezone=Europe/Berlin)
else
  say "No uv and no way to install it with pip: leaving out time and fetch."
fi
if command -v npx >/dev/null && command -v node >/dev/null; then
  servers+=('"memory": {}' "\"filesystem\": {\"paths\": [\"$root/files\"]}")
  [ ${#call[@]} -gt 0 ] || call=(list_directory --arg "path=$root/files")
else
  say "No Node.js with npm: leaving out memory and filesystem."
fi
if [ ${#servers[@]} -eq 0 ]; then
  say "Using the small server that is part of the binary: mcp-gateway demo-server."
  servers=("\"demo\": {\"command\": \"$bin\", \"args\": [\"demo-server\"]}")
  call=(add --arg a=2 --arg b=40)
fi
config=$(printf ', %s' "${servers[@]}")
config="{${config:2}}"

if gateway status >/dev/null 2>&1; then
  say "Stopping the gateway of the last run ..."
  gateway stop >/dev/null
fi
say "Starting: mcp-gateway --root $root --listen $listen --config '$config'"
[ ${#servers[@]} -eq 1 ] || say "(the first start downloads the servers)"
gateway --listen "$listen" --startup-timeout 10m --config "$config"

say
say "URL    http://$listen/mcp"
say "Token  $(cat "$root/etc/mcp-gateway/.token")"
say
gateway tools ls | awk -F '\t' '{ printf "%-28s %s\n", $1, $2 }'
say
say "\$ mcp-gateway --root $root tools call ${call[*]}"
gateway tools call "${call[@]}"
say
say "It goes on in the background. For all commands to find it:"
say "  export PATH=$(dirname "$bin"):\$PATH MCP_GATEWAY_ROOT=$root"
say "Stop it with: make stop"
