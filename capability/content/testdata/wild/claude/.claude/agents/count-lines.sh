#!/bin/sh
echo "Counts the lines of files"
