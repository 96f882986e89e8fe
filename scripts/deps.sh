#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deps.sh run|test|ci: makes sure that the Debian packages of that need are installed. Missing ones
# are installed when that may be done without asking (root, or sudo without a password); else the
# one line to type is printed and the exit status is 1. Where there is no dpkg nothing is done:
# CMake names what it cannot find.
set -eu

run="gcc libc6-dev make cmake ninja-build pkg-config
     libjansson-dev libopenblas-dev libssl-dev libcairo2-dev libcmocka-dev"
tests="g++"
ci="git clang clang-tidy clang-format libclang-rt-dev cppcheck shellcheck
    gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"

case "${1:-}" in
run) wanted="$run" ;;
test) wanted="$run $tests" ;;
ci) wanted="$run $tests $ci" ;;
*)
    echo "usage: deps.sh run|test|ci" >&2
    exit 2
    ;;
esac

command -v dpkg-query >/dev/null || exit 0

# A package counts when it, or one that provides it (pkgconf for pkg-config), is installed.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package} ${Provides}\n' |
    sed -n 's/^installed //p' | sed 's/([^)]*)//g' | tr -s ', ' '\n')
missing=""
for package in $wanted; do
    printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

# The one line to type where this script may not, or could not, install.
tell() {
    echo "Debian packages are missing. Type this, then repeat the command:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    sudo=""
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    tell
fi
echo "installing Debian packages:$missing"
# shellcheck disable=SC2086 # lists of words
{
    $sudo apt-get -qq update </dev/null || tell
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 \
        install -y --no-install-recommends $missing </dev/null >/dev/null || tell
}
