// One thread for BLAS while those of ldiv share the work: its own would spin beside them, and a fork would end them in the middle.
#pragma once

class OneBlasThread {
  public:
    OneBlasThread();
    ~OneBlasThread();
    OneBlasThread(const OneBlasThread&) = delete;
};

// How OpenBLAS is told, if SciPy's BLAS, at this address, is one.
void find_blas_threads(const void* routine);
