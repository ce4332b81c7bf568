#!/bin/sh
# The working directory is a crash image; standard input has the promises, one per line.
promised=$(tail -n 1)
found=$(cat value 2>/dev/null)
[ -z "$promised" ] && exit 0
[ "$found" = "$promised" ] || [ "$found" = two ] && exit 0
echo "'$promised' was promised, found '$found'"
exit 1
