#!/usr/bin/env bash
# Builds template/Dockerfile as a user would, on a base and with a builder that need no image registry:
#
#   image.sh FOLDER SERVER...
#
# The base is a minimal Debian made by debootstrap, the builder is that with this machine's Go; both stay
# in FOLDER for the next time. What it leaves for the test: FOLDER/root, the image's files (a symbolic
# link), FOLDER/image.json, how the image is to be run, and FOLDER/base.json, the same of its base.
set -euo pipefail
suite=bookworm
path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
folder=$(realpath -m "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ "$(id -u)" != 0 ]; then
  echo "image.sh: building an image without Docker needs root" >&2
  exit 1
fi
missing=()
for package in buildah debootstrap; do
  command -v "$package" >/dev/null || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends "${missing[@]}" </dev/null >/dev/null
fi

mkdir -p "$folder/tmp"
secrets=$(mktemp -d)
trap 'rm -rf "$secrets"' EXIT
export TMPDIR=$folder/tmp # buildah keeps its cache there
# With vfs an image's files are a plain folder, and nothing stays mounted.
b() { buildah --storage-driver vfs --root "$folder/storage" --runroot "$folder/run" --log-level error "$@"; }

# What this machine's package managers are set to is handed to those in the image, and is not kept there.
setting() {
  if [ -n "$2" ]; then printf "%s='%s'\n" "$1" "$2"; fi
}
{
  index=${PIP_INDEX_URL:-$(python3 -m pip config get global.index-url 2>/dev/null || true)}
  setting PIP_INDEX_URL "$index"
  setting UV_DEFAULT_INDEX "${UV_DEFAULT_INDEX:-$index}"
  setting NPM_CONFIG_REGISTRY "$(npm config get registry)"
  for name in GOPROXY GOSUMDB GONOSUMDB GOPRIVATE; do
    setting "$name" "$(go env "$name")"
  done
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    setting "$name" "${!name:-}"
  done
} >"$secrets/env"
cp "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$secrets/ca"

base=localhost/base:$suite
builder=localhost/builder:$(go env GOVERSION)
if ! b inspect --type image "$base" >/dev/null 2>&1; then
  echo "making a Debian $suite with debootstrap"
  rm -rf "$folder/debian"
  debootstrap --variant=minbase "$suite" "$folder/debian" >"$folder/debootstrap.log" 2>&1 || {
    tail -n 20 "$folder/debootstrap.log" >&2
    exit 1
  }
  rm -rf "$folder"/debian/var/cache/apt/archives/*.deb "$folder"/debian/var/lib/apt/lists/*
  container=$(b from scratch)
  b add -q "$container" "$folder/debian" / >/dev/null
  b config --env "PATH=$path" "$container"
  b commit -q --rm "$container" "$base" >/dev/null
  rm -rf "$folder/debian"
fi
if ! b inspect --type image "$builder" >/dev/null 2>&1; then
  container=$(b from "$base")
  b copy -q "$container" "$(go env GOROOT)" /usr/local/go >/dev/null
  b config --env "PATH=/usr/local/go/bin:$path" "$container"
  b commit -q --rm "$container" "$builder" >/dev/null
fi

rm -f "$folder/root"
b rm --all >/dev/null
b bud --isolation chroot --format docker --layers=false -f template/Dockerfile \
  --build-arg BASE_IMAGE="$base" --build-arg BUILDER_IMAGE="$builder" --build-arg MCP_SERVERS="$*" \
  --build-arg VERSION=test --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo none)" \
  --secret id=env,src="$secrets/env" --secret id=ca,src="$secrets/ca" -t localhost/mcp-gateway .
b rmi --prune >/dev/null # earlier builds
b inspect --type image "$base" >"$folder/base.json"
b inspect --type image localhost/mcp-gateway >"$folder/image.json"
ln -s "$(b mount "$(b from localhost/mcp-gateway)")" "$folder/root"
