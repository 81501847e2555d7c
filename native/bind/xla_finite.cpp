// xla_finite: Y = X if all numbers are finite, else an error with the text of the attribute `words`.
// xla_here: a marker of a place in a program. It is declared to have a side effect, so that XLA moves neither it nor a call that takes it as an
// argument out of a loop.
#include "xla_handlers.hpp"

#include "xla_call.hpp"

xla::Error* xla_finite(xla::Frame* frame) {
    return answered(frame, [](const XlaCall& call) {
        XlaCall::require(call.arguments >= 1 && call.arguments <= 2 && call.results == 1);
        const View x = call.argument(0), y = call.result(0);
        XlaCall::require(x.dtype == y.dtype && x.items() == y.items());
        const std::string& words = call.text("words");
        return with_floats(x, [&](auto like) {
            using T = decltype(like);
            if (x.data != y.data) std::copy_n(x.as<T>(), x.items(), y.as<T>());  // XLA may give one memory to both
            return all_finite(x.as<T>(), x.items()) ? nullptr : call.error(xla::INTERNAL, words);
        });
    });
}

xla::Error* xla_here(xla::Frame* frame) {
    return answered(frame, [](const XlaCall& call) {
        XlaCall::require(call.results == 1 && call.result(0).dtype == Dtype::i4);
        std::fill_n(call.result(0).as<int>(), call.result(0).items(), 0);
        return static_cast<xla::Error*>(nullptr);
    });
}
