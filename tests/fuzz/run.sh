#!/bin/sh
# run.sh [SECONDS]: builds the fuzz targets and runs each for SECONDS (60).
exec "$(dirname "$0")/../../dev" fuzz "${1:-60}"
