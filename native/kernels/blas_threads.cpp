#include "blas_threads.hpp"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include <string>

#include "forks.hpp"

namespace {

int (*get_threads)() = nullptr;
void (*set_threads)(int) = nullptr;

// The first caller sets the number of BLAS threads to one; the last caller restores it.
int calls = 0, before = 1;
unsigned process = 0;

}  // namespace

OneBlasThread::OneBlasThread() {
    if (!set_threads) return;
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    const bool is_inherited = process != forks && calls > 0;  // left by calls of the parent process, before the fork
    if (is_inherited) calls = 0;
    else if (calls == 0) before = get_threads();
    process = forks;
    if (calls++ == 0 && before > 1) set_threads(1);
}

OneBlasThread::~OneBlasThread() {
    if (!set_threads) return;
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    if (--calls == 0 && before > 1) set_threads(before);
}

// A routine of SciPy's is in a module that loads its BLAS: names are looked for in both.
void find_blas_threads([[maybe_unused]] const void* routine) {
#if !defined(_WIN32)
    Dl_info at;
    void* module = dladdr(routine, &at) ? dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (!module) return;
    for (std::string name : {"scipy_openblas_", "openblas_"}) {
        void *get = dlsym(module, (name + "get_num_threads").c_str()), *set = dlsym(module, (name + "set_num_threads").c_str());
        if (!get || !set) continue;
        get_threads = reinterpret_cast<int (*)()>(get);
        set_threads = reinterpret_cast<void (*)(int)>(set);
        return;
    }
#endif
}
