#!/bin/sh
# Install the `amplifier` command from this clone, in an environment of its own.
#
#   ./install.sh                    the command and what its default bundle names
#   ./install.sh durable,mcp        with extras: durable, failover, logging, mcp, otel, all
#   ./install.sh --remove           remove both; sessions and settings stay in ~/.amplifier
#
# AMPLIFIER_INSTALL is the folder of the environment (~/.local/share/amplifier), and
# AMPLIFIER_BIN the folder of the command (~/.local/bin).
set -eu

clone=$(cd "$(dirname "$0")" && pwd)
environment=${AMPLIFIER_INSTALL:-"$HOME/.local/share/amplifier"}
bin=${AMPLIFIER_BIN:-"$HOME/.local/bin"}

stop() {
    printf 'error  %s\nwhy    %s\nnext   %s\n' "$1" "$2" "$3" >&2
    exit 1
}

pip() {
    "$environment/bin/python" -m pip --disable-pip-version-check "$@"
}

is_ours() {
    [ -L "$bin/amplifier" ] && [ "$(readlink "$bin/amplifier")" = "$environment/bin/amplifier" ]
}

if [ "${1:-}" = "--remove" ]; then
    if is_ours; then rm "$bin/amplifier"; fi
    rm -rf "$environment"
    echo "Removed $environment. Sessions and settings are still in ~/.amplifier."
    exit 0
fi

if [ -e "$bin/amplifier" ] && ! is_ours; then
    stop "$bin/amplifier exists and was not installed by this script." \
        "It would be replaced." \
        "AMPLIFIER_BIN=$HOME/bin $0"
fi

python=
for each in python3.13 python3.12 python3.11 python3 python; do
    if "$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$each
        break
    fi
done
[ -n "$python" ] || stop "Amplifier needs Python 3.11 or newer." \
    "Found: $(python3 --version 2>&1 || true)" \
    "Install Python 3.11 or newer, then run $0 again."

is_upgrade=
if "$environment/bin/python" -c '' 2>/dev/null; then
    is_upgrade=yes
else
    "$python" -m venv --clear "$environment" || stop "$python cannot make an environment." \
        "Its \`venv\` failed; on Debian and Ubuntu that is a package of its own." \
        "sudo apt install python3-venv, then run $0 again."
fi

# Without extras of its own, an upgrade keeps those that are there.
extras=${1:-$(sed -n 3p "$environment/installed-by" 2>/dev/null || true)}

echo "Installing into $environment ..."
# The build backend is in the environment, so that nothing is built in a second one.
pip install -q -c "$clone/constraints.txt" hatchling
"$environment/bin/python" "$clone/tools/build_dist.py" --no-sbom >/dev/null
pip install -q --find-links "$clone/dist" -c "$clone/constraints.txt" "amplifier-cli${extras:+[$extras]}"
if [ -n "$is_upgrade" ]; then
    # Two commits may have one version, and pip keeps what has the version it looks for.
    ours=$(pip list --format=freeze | sed -n 's/^\(amplifier-[a-z-]*\)==.*/\1/p')
    # shellcheck disable=SC2086 # a list of names
    pip install -q --no-index --no-deps --force-reinstall --find-links "$clone/dist" $ours
fi

# Messages name the command that repairs or extends this installation.
printf '%s\n' "$clone/install.sh" "$bin" "$extras" > "$environment/installed-by"

mkdir -p "$bin"
ln -sf "$environment/bin/amplifier" "$bin/amplifier"
"$bin/amplifier" --version
case ":$PATH:" in
    *":$bin:"*) ;;
    *) echo "next   export PATH=\"$bin:\$PATH\"" ;;
esac
