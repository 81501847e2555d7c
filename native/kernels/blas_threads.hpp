// One BLAS thread while threads of ldiv share the work: BLAS threads would compete with them, and would not survive a fork.
#pragma once

class OneBlasThread {
  public:
    OneBlasThread();
    ~OneBlasThread();
    OneBlasThread(const OneBlasThread&) = delete;
};

// Find OpenBLAS's functions for its number of threads, if SciPy's BLAS, at this address, is OpenBLAS.
void find_blas_threads(const void* routine);
