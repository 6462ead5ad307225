// A command line of foreshard's own, as a report offers it to be run. Pure.
#pragma once

#include <string>

#include "cli/options/source_options.hpp"
#include "core/base/quantity.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::cli {

/// "foreshard plan SOURCE OPTIONS --forward-prefetch 2": what plans a source, whose settings are `from`, at `to`.
/// `options`: what else stands there, as it is; may be empty. A setting that a file holds comes from `file`, or where
/// that is empty from a bash process substitution.
[[nodiscard]] std::string plan_command(const std::string& source, const std::string& options, const Settings& from,
                                       const Settings& to, const std::string& file = {});

/// "llama-1b --compile": what was planned, with traces::Source::model_options.
[[nodiscard]] std::string model_title(const std::string& name, const std::string& model_options);

/// A sentence of traces::left_out() as every answer says it.
[[nodiscard]] std::string left_out_line(const std::string& what);

/// A setting's JSON value as its option takes it: a text without quotes.
[[nodiscard]] std::string option_value(const std::string& json);
/// A size as options take it: "30GiB", "30720MiB", and in bytes where it is no whole number of them.
[[nodiscard]] std::string size_value(Bytes bytes);

/// What was given of SOURCE beside its name: "--layers 4 --machine h100"; may be empty.
[[nodiscard]] std::string source_words(const SourceOptions& source);

}  // namespace foreshard::cli
