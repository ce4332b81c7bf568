#!/bin/sh
# Saves a value twice: writes a new file and renames it over the old one. With "sync", correctly.
for value in one two; do
    echo $value > value.new
    [ "$1" = sync ] && sync value.new
    mv value.new value
    [ "$1" = sync ] && sync .
    echo $value
done
