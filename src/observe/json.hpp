// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::observe {

/// JSON whose fields keep the order in which they are added.
using Json = nlohmann::ordered_json;

/// Formats JSON on one line. Bytes that are not UTF-8, as in a path or host name, become U+FFFD, because they must not
/// end a training run.
inline std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace lockstep::observe
