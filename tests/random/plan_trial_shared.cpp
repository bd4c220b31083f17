// Compiled once for the quick, full and long tests of random plans.
#include "../support/plan_trial.hpp"

namespace partita::testing {

trial_result run_trial(unsigned seed, trial_options how) {
  if (seed % 2 != 0) return plan_trial<trial_double>(seed, how).run();
  trial_options once = how;
  once.minimise = false;
  const trial_result r = plan_trial<trial_single>(seed, once).run();
  if (r.fault.empty()) return r;
  if (r.worst > 1) {
    // Is it rounding? The same pair in double has as much of it, 29 bits lower. The bounds are 1e-5 and 1e-11 of the
    // largest gradient; ten times that is granted, since rounding is a matter of chance.
    trial_result d = plan_trial<trial_double>(seed, once).run();
    if (d.fault.empty() && r.worst * 1e-5 <= 10 * d.worst * 1e-11 * 0x1p29) return d;
  }
  return how.minimise ? plan_trial<trial_single>(seed, how).run() : r;
}

namespace {
template <class Training> class of_type final : public one_device {
 public:
  of_type(random_case const& c, unsigned seed) : one_(trial_training<Training>(c, seed), seed, c.extents) {}
  double step(named_values const& inputs, double learning_rate) override { return one_.step(inputs, learning_rate); }
  double evaluate(named_values const& inputs) override { return one_.evaluate(inputs); }
  std::vector<double> parameter(std::string_view name) const override { return one_.parameter(name); }
  std::vector<double> gradient(std::string_view name) const override { return one_.gradient(name); }
  void set_parameter(std::string_view name, std::vector<double> const& to) override { one_.set_parameter(name, to); }
  std::vector<std::string> trained() const override { return one_.trained(); }

 private:
  reference<Training> one_;
};
}  // namespace

std::unique_ptr<one_device> make_one_device(random_case const& c, unsigned seed, dtype type) {
  if (type == f64) return std::make_unique<of_type<trial_double>>(c, seed);
  return std::make_unique<of_type<trial_single>>(c, seed);
}

}  // namespace partita::testing
