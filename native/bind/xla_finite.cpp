// Y = X, whose numbers are finite; else the error in whose words the program was told so. And the place in a program where a call stands
// that may raise: XLA moves neither this out of a loop, for it is told of a side effect, nor what it is an argument of.
#include "xla_handlers.hpp"

#include <algorithm>
#include <string>

#include "kernels/scalar.hpp"
#include "xla_batches.hpp"

template <class T> static bool copied(const xla::Buffer& x, const xla::Buffer& y) {
    const T* from = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(y.data);
    Index count = batch_of(x, 0);
    if (to != from) std::copy(from, from + count, to);  // XLA may give one memory to both
    return all_finite(from, count);
}

static bool copied(xla::Frame* frame, bool& known) {
    const xla::Buffer &x = *static_cast<const xla::Buffer*>(frame->arguments.each[0]), &y = *static_cast<const xla::Buffer*>(frame->results.each[0]);
    if (x.dtype == y.dtype && batch_of(x, 0) == batch_of(y, 0)) switch (x.dtype) {
        case xla::F32: return copied<float>(x, y);
        case xla::F64: return copied<double>(x, y);
        case xla::C64: return copied<std::complex<float>>(x, y);
        case xla::C128: return copied<std::complex<double>>(x, y);
        default: break;
    }
    return known = false;
}

xla::Error* xla_finite(xla::Frame* frame) {
    if (xla::says_version(frame)) return nullptr;
    const xla::Attributes& told = frame->attributes;
    bool known = told.count == 1 && told.kinds[0] == xla::STRING && frame->arguments.count >= 1 && frame->arguments.count <= 2 && frame->results.count == 1;
    if (known && copied(frame, known)) return nullptr;
    if (!known) return xla::error(frame, xla::INVALID_ARGUMENT, "ldiv: a call that this version does not know");
    const xla::Span& span = *static_cast<xla::Span*>(told.each[0]);
    return xla::error(frame, xla::INTERNAL, std::string(span.start, span.length).c_str());
}

xla::Error* xla_here(xla::Frame* frame) {
    if (xla::says_version(frame)) return nullptr;
    const bool known = frame->results.count == 1 && static_cast<xla::Buffer*>(frame->results.each[0])->dtype == xla::S32;
    if (!known) return xla::error(frame, xla::INVALID_ARGUMENT, "ldiv: a call that this version does not know");
    const xla::Buffer& place = *static_cast<xla::Buffer*>(frame->results.each[0]);
    std::fill_n(static_cast<int*>(place.data), batch_of(place, 0), 0);
    return nullptr;
}
