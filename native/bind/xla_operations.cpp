// The table of operations in programs: `what` names a row, `options` are its letters, and `without` has a digit for each optional array that
// is missing; each in the two calls of xla_stages.hpp.
#include "xla_handlers.hpp"

#include "operation.hpp"
#include "xla_careful.hpp"
#include "xla_stages.hpp"

static xla::Error* careful(const XlaCall& record, const Operation& own, const Call& call, const View* views, const std::vector<Index>& which) {
    if (which.empty()) return nullptr;
    Careful asked(record);
    for (int j = 0; j < int(own.arrays.size()); j++) {
        if (views[j].dtype == Dtype::none) continue;
        const std::string axes = own.axes(call, j);
        const Index columns = axes.empty() ? 1 : call.size(axes.back()), rows = axes.size() < 2 ? 1 : call.size(axes[0]);
        std::vector<Index> of = which;
        if (!call.operands[j].of.empty())
            for (Index& i : of) i = call.operands[j].of[i];
        if (j < own.arguments)  // a vector is a column
            asked.add(views[j], axes.size() == 1 ? columns : rows, axes.size() == 1 ? 1 : columns, of);
        else
            asked.result(views[j], rows * columns, of);
    }
    return asked.run(Index(which.size()));
}

// The probe that a program gives after the arguments.
static std::shared_ptr<const Direction> direction(const View& z, Index n) {
    XlaCall::require(z.items() == n && (z.dtype == Dtype::f4 || z.dtype == Dtype::f8));
    return z.dtype == Dtype::f4 ? std::make_shared<Direction>(z.as<float>(), n) : std::make_shared<Direction>(z.as<double>(), n);
}

xla::Error* xla_operation(xla::Frame* frame) {
    return answered(frame, [](const XlaCall& record) {
        const Operation* own = nullptr;
        for (const Operation& one : operations())
            if (one.name == record.text("what")) own = &one;
        XlaCall::require(own);
        const int count = int(own->arrays.size());
        const auto without = record.fields.find("without");
        auto is_given = [&](int j) { return !own->arrays[j].is_optional || without == record.fields.end() || without->second.find(char('0' + j)) == std::string::npos; };
        View views[MOST_ARRAYS];
        int arguments = 0, results = 0;
        for (int j = 0; j < count; j++)
            if (is_given(j)) views[j] = j < own->arguments ? record.argument(arguments++) : record.result(results++);
        Stage stage(record, arguments, results);
        XlaCall::require(stage.is_answer() || record.arguments == arguments + own->is_probed);
        Call call;
        call.options = record.text("options");
        own->bind(call, views);
        stage.read(call.count);
        if (stage.is_answer()) return careful(record, *own, call, views, stage.declined());
        if (own->is_probed) call.probe = direction(record.argument(arguments), call.size('n'));
        std::vector<char> declined(call.count);
        call.declined = declined.data();
        const double operations = double(views[own->arguments].items()) * double(call.size('n'));
        if (!own->run[int(call.dtype) - 1](call, xla_threads(operations))) return record.lacks_memory();
        stage.write(declined);
        return static_cast<xla::Error*>(nullptr);
    });
}
