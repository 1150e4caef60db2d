// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::observe {

/// Fields stay in the order in which they are written down.
using Json = nlohmann::ordered_json;

/// On one line. A path or host name that is not UTF-8 must not end a training run: such bytes become U+FFFD.
inline std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace lockstep::observe
