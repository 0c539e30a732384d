#!/usr/bin/env bash
# Cargo for maturin, without the variables by which maturin tells pyo3 about an interpreter. With other variables than those
# of scripts/native.sh, cargo would build the engine a second time.
exec env -u PYO3_BUILD_EXTENSION_MODULE -u PYO3_CONFIG_FILE -u PYO3_ENVIRONMENT_SIGNATURE -u PYO3_PYTHON \
    -u PYTHON_SYS_EXECUTABLE cargo "$@"
