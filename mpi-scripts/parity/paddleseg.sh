#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares pp-liteseg with PaddleSeg's own code (the package paddleseg of PyPI, which is only run): drawn weights of PaddleSeg's
# network give the same logits in lockstep after convert_paddleseg.py, and weights that train has written give the same logits there,
# in float64 within 1e-9, and as ONNX in onnxruntime within 1e-4. Ten steps of network and losses in float64 beside PyTorch are those
# of parity.sh pp-liteseg.
#   PYTHON  an interpreter with paddle, paddleseg, safetensors and onnxruntime; without it a virtual environment is made in
#           build/paddleseg-venv, once (some minutes, 2 GB)
#   PRESET  the build to use, with tests (dev)
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

preset=${PRESET:-dev}
python=${PYTHON:-build/paddleseg-venv/bin/python}
if ! "$python" -c 'import onnxruntime, paddle, paddleseg, safetensors' 2>/dev/null; then
  [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON cannot import all of: onnxruntime paddle paddleseg safetensors"
  echo "Making a virtual environment with PaddleSeg's own code in build/paddleseg-venv" >&2
  python3 -m venv build/paddleseg-venv || fail "python3 cannot make virtual environments; install python3-venv"
  install=("$python" -m pip install --quiet)
  "${install[@]}" paddlepaddle==3.3.1 visualdl setuptools==75.8.0 opencv-python-headless pyyaml tqdm filelock scipy prettytable scikit-learn \
    safetensors onnxruntime || fail "pip could not install what paddleseg needs"
  # Its own requirements name an OpenCV of an older numpy.
  "${install[@]}" --no-deps paddleseg==2.8.0 || fail "pip could not install paddleseg"
fi
[ -f "build/$preset/CMakeCache.txt" ] || cmake --preset "$preset"
cmake --build "build/$preset" -j "$jobs" --target train lockstep-export trainer_logits
"$python" mpi-scripts/parity/paddleseg-original.py "build/$preset"
