// Steps an agent with onnxruntime's C++ API and compares it with its golden steps; docs/runtimes.md says how to build it.
//   step POLICY.onnx GOLDEN, the folder that unpack_golden.py wrote
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using Numbers = std::vector<float>;

constexpr double kTolerance = 1e-4;  // of an output's scale over chained steps, as the contract says
constexpr int64_t kBatch = 3;        // of the golden steps

// What was written of one input or output: steps x batch x size numbers.
Numbers ReadNumbers(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("There is no such file of golden steps. Received: " + path);
  Numbers numbers(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0).read(reinterpret_cast<char*>(numbers.data()), numbers.size() * sizeof(float));
  return numbers;
}

// The names and widths of the graph's inputs or outputs: each is [batch, width].
std::map<std::string, int64_t> ReadWidths(const Ort::Session& session, bool inputs) {
  std::map<std::string, int64_t> widths;
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t i = 0; i < (inputs ? session.GetInputCount() : session.GetOutputCount()); ++i) {
    auto name = inputs ? session.GetInputNameAllocated(i, allocator) : session.GetOutputNameAllocated(i, allocator);
    auto type = inputs ? session.GetInputTypeInfo(i) : session.GetOutputTypeInfo(i);
    widths[name.get()] = type.GetTensorTypeAndShapeInfo().GetShape().at(1);
  }
  return widths;
}

int Run(const std::string& model, const std::string& golden) {
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "step");
  Ort::SessionOptions options;
  options.SetIntraOpNumThreads(1);  // a network of this size is fastest on one thread
  Ort::Session session(env, model.c_str(), options);
  Ort::AllocatorWithDefaultOptions allocator;
  auto about = session.GetModelMetadata();
  for (const char* key : {"agent", "env_id", "contract_version"})
    std::printf("%s: %s\n", key, about.LookupCustomMetadataMapAllocated(key, allocator).get());

  const auto inputs = ReadWidths(session, true), outputs = ReadWidths(session, false);
  std::vector<const char*> input_names, output_names;
  std::map<std::string, Numbers> recorded, buffers;
  for (const auto& [name, width] : inputs) input_names.push_back(name.c_str());
  for (const auto& [name, width] : outputs) output_names.push_back(name.c_str());
  for (const auto& [name, width] : inputs) recorded[name] = ReadNumbers(golden + "/" + name + ".f32");
  for (const auto& [name, width] : outputs) recorded[name] = ReadNumbers(golden + "/" + name + ".f32");
  const size_t steps = recorded.at("observation").size() / (kBatch * inputs.at("observation"));

  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  Numbers state(kBatch * inputs.at("state_in"), 0.0f);  // the agent's memory: empty at the start, then ours to keep
  std::map<std::string, double> differences, scales;
  for (size_t step = 0; step < steps; ++step) {
    std::vector<Ort::Value> values;
    for (const auto& [name, width] : inputs) {
      const auto start = recorded.at(name).begin() + step * kBatch * width;
      buffers[name] = name == "state_in" ? state : Numbers(start, start + kBatch * width);
      const int64_t shape[] = {kBatch, width};
      values.push_back(Ort::Value::CreateTensor<float>(memory, buffers[name].data(), buffers[name].size(), shape, 2));
    }
    const auto results = session.Run(Ort::RunOptions{}, input_names.data(), values.data(), values.size(),
                                     output_names.data(), output_names.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string name = output_names[i];
      const float* found = results[i].GetTensorData<float>();
      const size_t count = kBatch * outputs.at(name);
      for (size_t k = 0; k < count; ++k) {
        const float expected = recorded.at(name)[step * count + k];
        const double difference = std::abs(double(found[k]) - expected);
        // A number that is none compares as false with everything: it must not pass.
        differences[name] = std::isfinite(difference) ? std::max(differences[name], difference) : INFINITY;
        scales[name] = std::max(scales[name], std::abs(double(expected)));
      }
      if (name == "state_out") state.assign(found, found + count);
    }
  }
  bool same = steps > 0;
  for (const auto& [name, difference] : differences) {
    same = same && difference <= kTolerance * scales[name];
    std::printf("%s: largest difference %.1e of %.1e\n", name.c_str(), difference, scales[name]);
  }
  std::printf("%zu steps: %s\n", steps, same ? "the golden ones" : "NOT the golden ones");
  return same ? 0 : 1;
}

int main(int count, char** arguments) try {
  if (count != 3) throw std::runtime_error("Accepted is: step POLICY.onnx GOLDEN_FOLDER");
  return Run(arguments[1], arguments[2]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "step: %s\n", error.what());
  return 2;
}
