#!/bin/sh
# The working directory is what a crash has left; standard input has what was promised, a line each.
promised=$(tail -n 1)
found=$(cat value 2>/dev/null)
[ -z "$promised" ] && exit 0
[ "$found" = "$promised" ] || [ "$found" = two ] && exit 0
echo "'$promised' was promised, found '$found'"
exit 1
