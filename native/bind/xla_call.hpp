// One call of a program: its attributes, text by field, and its arrays.
#pragma once
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>

#include "checked/limits.hpp"
#include "view.hpp"
#include "xla_ffi.hpp"

using Fields = std::map<std::string, std::string>;

class XlaCall {
  public:
    explicit XlaCall(xla::Frame* frame) : arguments(int(frame->arguments.count)), results(int(frame->results.count)), frame_(frame) {
        auto text = [](const void* span) { return std::string(static_cast<const xla::Span*>(span)->start, static_cast<const xla::Span*>(span)->length); };
        const xla::Attributes& given = frame->attributes;
        for (int64_t i = 0; i < given.count; i++) {
            require(given.kinds[i] == xla::STRING);
            fields[text(given.names[i])] = text(given.each[i]);
        }
    }
    const int arguments, results;
    Fields fields;

    // Raise an error of the call if it is not understood.
    static void require(bool holds) {
        if (!holds) throw std::invalid_argument("a call that this version does not know");
    }
    const std::string& text(const char* field) const {
        auto found = fields.find(field);
        require(found != fields.end());
        return found->second;
    }
    // One of these letters, or any.
    char letter(const char* field, const char* choices = "") const {
        const std::string& found = text(field);
        require(found.size() == 1 && (!*choices || std::string(choices).find(found[0]) != std::string::npos));
        return found[0];
    }
    View argument(int i) const { return require(i < arguments), view(frame_->arguments, i); }
    View result(int i) const { return require(i < results), view(frame_->results, i); }
    xla::Error* error(xla::ErrorCode code, const std::string& words) const { return xla::error(frame_, code, words.c_str()); }
    xla::Error* lacks_memory() const { return error(xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a factorization"); }

  private:
    static View view(const xla::Buffers& all, int i) {
        const xla::Buffer& x = *static_cast<const xla::Buffer*>(all.each[i]);
        const Dtype dtype = x.dtype == xla::F32 ? Dtype::f4 : x.dtype == xla::F64 ? Dtype::f8 : x.dtype == xla::C64 ? Dtype::c8 : x.dtype == xla::C128 ? Dtype::c16
                          : x.dtype == xla::S32 ? Dtype::i4 : Dtype::none;
        return {dtype, x.data, int(x.rank), reinterpret_cast<const Index*>(x.dims)};
    }
    xla::Frame* frame_;
};

// The error of f(call), or none.
template <class F> xla::Error* answered(xla::Frame* frame, F f) {
    if (xla::says_version(frame)) return nullptr;
    try {
        return f(XlaCall(frame));
    } catch (const std::invalid_argument& error) {
        return xla::error(frame, xla::INVALID_ARGUMENT, (std::string("ldiv: ") + error.what()).c_str());
    } catch (const std::bad_alloc&) {
        return xla::error(frame, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a factorization");
    }
}

// f(T()) with the type of an array of floats.
template <class F> xla::Error* with_floats(const View& x, F f) {
    XlaCall::require(are_floats(x.dtype));
    return with_type(x.dtype, f);
}

// The sign of a determinant of n rows that is to be positive, up to the rounding of its factors.
template <class T> bool is_one(T sign, Index n) { return size_of(sign - T(1)) <= (Scalar<T>::is_complex ? Real<T>(SIGN) * Real<T>(n) * eps<T> : Real<T>(0)); }
