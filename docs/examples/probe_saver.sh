#!/bin/sh
# Saves a value twice: written beside, renamed over. With "sync", the way it has to be done.
for value in one two; do
    echo $value > value.new
    [ "$1" = sync ] && sync value.new
    mv value.new value
    [ "$1" = sync ] && sync .
    echo $value
done
