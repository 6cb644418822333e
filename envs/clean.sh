#!/bin/sh
# `make clean`: remove results and Snakemake's memory of them. Asks first; without a terminal it refuses, unless --yes is given.
set -eu
cd "$(dirname "$0")/.."

there=
for folder in results .snakemake; do
    if [ -e "$folder" ]; then there="$there $folder"; fi
done
if [ -z "$there" ]; then
    echo "Nothing to remove."
    exit 0
fi
if [ "${1:-}" = --yes ]; then
    answer=y
elif [ -t 0 ]; then
    du -sh $there
    printf 'Remove all of it, trained models included? [y/N] '
    read -r answer
else
    echo "make clean removes$there for good and asks first; without a terminal say: make clean YES=1" >&2
    exit 1
fi
case $answer in
    y | Y | yes) rm -rf $there && echo "Removed:$there" ;;
    *) echo "Kept." ;;
esac
