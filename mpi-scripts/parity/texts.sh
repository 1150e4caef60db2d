#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the metrics of texts with those of Python's rapidfuzz, which PaddleOCR's RecMetric takes. Short words of few letters are
# rendered in one font, with spaces in some of the texts; crnn-mv3 learns a little, and is evaluated on one, two and three ranks, from
# lists and from databases. The texts that it predicts are then judged by the other. Takes some minutes.
#   PYTHON         an interpreter with Pillow, lmdb and rapidfuzz; without it a virtual environment with the newest ones from PyPI is
#                  made in build/texts-venv, once
#   PRESET         the build to use (release)
#   LOCKSTEP_DATA  the folder with cifar10-jpeg.tar.gz (../shared/data)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-release}
python=${PYTHON:-build/texts-venv/bin/python}
has_packages() { "$1" -c 'import PIL, lmdb, rapidfuzz' 2>/dev/null; }
if ! has_packages "$python"; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import all of: PIL lmdb rapidfuzz"
  echo "Making a virtual environment with Pillow, lmdb and rapidfuzz in build/texts-venv"
  python3 -m venv build/texts-venv || fail "python3 cannot make virtual environments; install python3-venv"
  "$python" -m pip install --quiet pillow lmdb rapidfuzz || fail "pip could not install what is compared with"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train
rm -rf build/texts
mkdir -p build/texts
printf '%s\n' {a,b,c,d}{a,b,c,d}{,a,d} >build/texts/words
for form in "" --lmdb; do
  "$python" mpi-scripts/render_lines.py "build/texts/lines$form" --train 400 --val 100 --fonts DejaVuSans \
    --words build/texts/words $form
done
"$python" mpi-scripts/parity/texts.py "build/$preset/bin/train" build/texts
