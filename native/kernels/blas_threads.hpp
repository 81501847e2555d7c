// One thread for BLAS while those of ldiv share the work: its own would spin beside them, and a fork would end them in the middle.
#pragma once

class OneBlasThread {
  public:
    OneBlasThread();
    ~OneBlasThread();
    OneBlasThread(const OneBlasThread&) = delete;
};

// Find OpenBLAS's functions for its number of threads, if SciPy's BLAS, at this address, is OpenBLAS.
void find_blas_threads(const void* routine);
