// SPDX-License-Identifier: Apache-2.0
//
// Every call of tests/cuda/cuda_cases.h on both arms: all buffers of the call, their guards and what lies between rows are put
// back before each run, and are all compared after it, so an input that was written to, a guard and a gap show like an output.
// Each call is made with two poisons in what nobody sets, and twice with the first: an element that is not written, or that
// depends on what nobody wrote, differs. The baseline is held to the CPU's reference.

#include "lab/cuda/prove.h"

#include "cuda_cases.h"
#include "lab/cuda/module.h"
#include "lab/cuda/scenes.h"

#include <chrono>
#include <memory>

namespace {

using bytes = std::vector<unsigned char>;

struct state {
    const lab_device_plan *plan;
    lab_device_proof *proof;
    std::unique_ptr<lab_module> arm[2];
    bool again; // with the second poison
};
state *g_state_of_proof;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<bytes> take_all() {
    std::vector<bytes> all;
    for (const buffer *b : g_buffers)
        all.push_back(b->d ? b->all() : bytes());
    return all;
}

void put_all(const std::vector<bytes> &all) {
    for (size_t i = 0; i < g_buffers.size(); i++)
        if (g_buffers[i]->d)
            check(cudaMemcpy(g_buffers[i]->d - buffer::GUARD, all[i].data(), all[i].size(), cudaMemcpyHostToDevice),
                  "copy");
}

void run_arm(state *s, int which, int kernel, const void *args) {
    s->proof->since = which == 1 ? now() : 0;
    s->arm[which]->launch(kernel, args, nullptr);
    const cudaError_t status = cudaDeviceSynchronize();
    s->proof->used += which == 1 ? now() - s->proof->since : 0;
    s->proof->since = 0;
    if (status != cudaSuccess)
        throw lab_stop{which, cudaGetErrorString(status)};
}

// The first byte of `got` that is not `want`'s, with what it means.
[[noreturn]] void tell(state *s, int arm, const buffer *b, const bytes &got, const bytes &want, const char *how) {
    size_t at = 0;
    while (got[at] == want[at])
        at++;
    const size_t size = b->h.size() - buffer::GUARD;
    char text[400];
    if (at < buffer::GUARD) {
        snprintf(text, sizeof text, "writes %zu bytes before the start of %s", buffer::GUARD - at, b->name);
    } else if (at - buffer::GUARD >= size) {
        snprintf(text, sizeof text, "writes %zu bytes past the end of %s", at - buffer::GUARD - size + 1, b->name);
    } else {
        const size_t word = (at - buffer::GUARD) / 4 * 4;
        uint32_t a = 0, c = 0;
        memcpy(&a, got.data() + buffer::GUARD + word, 4); // the guard behind has room
        memcpy(&c, want.data() + buffer::GUARD + word, 4);
        lab_device_proof *p = s->proof;
        snprintf(p->field, sizeof p->field, "%.31s", b->name);
        snprintf(p->got_bits, sizeof p->got_bits, "%08x", a), snprintf(p->want_bits, sizeof p->want_bits, "%08x", c);
        snprintf(p->got, sizeof p->got, "%.9g", qsa_f32_of_bits(a));
        snprintf(p->want, sizeof p->want, "%.9g", qsa_f32_of_bits(c));
        p->element = (int64_t)(word / 4), p->differs = true;
        snprintf(text, sizeof text, "%s: %s word %zu (byte %zu of %zu) is %s (%s), not %s (%s)", how, b->name, word / 4,
                 at - buffer::GUARD, size, p->got, p->got_bits, p->want, p->want_bits);
    }
    throw lab_stop{arm, text};
}

void compare(state *s, int arm, const std::vector<bytes> &got, const std::vector<bytes> &want, const char *how) {
    for (size_t i = 0; i < g_buffers.size(); i++)
        if (got[i] != want[i])
            tell(s, arm, g_buffers[i], got[i], want[i], how);
}

// The second poison needs no reference: thrown once the arms are compared.
struct seen {};

// The hook of cuda_cases.h.
int run_both(int kernel, const void *args) {
    state *s = g_state_of_proof;
    g_skipped = kernel != s->plan->kernel;
    if (g_skipped)
        return 0;
    s->proof->calls++;
    snprintf(s->proof->what, sizeof s->proof->what, "%.230s%s", g_case.c_str(), s->again ? ", other poison" : "");
    const std::vector<bytes> before = take_all();
    const int first = (int)(s->proof->calls % 2), repeats = s->again ? 1 : 2;
    std::vector<bytes> got[2][2];
    for (int k = 0; k < 2 * repeats; k++) {
        const int which = (k + first) % 2;
        put_all(before);
        run_arm(s, which, kernel, args);
        got[which][k / 2] = take_all();
    }
    for (size_t i = 0; i < g_buffers.size(); i++) { // the baseline's guards
        const bytes &a = got[0][0][i], &b = before[i];
        if (a.size() &&
            (memcmp(a.data(), b.data(), buffer::GUARD) != 0 ||
             memcmp(a.data() + a.size() - buffer::GUARD, b.data() + b.size() - buffer::GUARD, buffer::GUARD)))
            tell(s, 0, g_buffers[i], a, b, "guard");
    }
    if (repeats == 2) {
        compare(s, 0, got[0][1], got[0][0], "a second run differs");
        compare(s, 1, got[1][0], got[0][0], "memcmp");
        compare(s, 1, got[1][1], got[1][0], "a second run differs");
    } else {
        compare(s, 1, got[1][0], got[0][0], "memcmp with another poison");
        throw seen();
    }
    put_all(got[0][0]);
    return 0;
}

void stop_on_error(const char *what, const char *text) {
    throw lab_stop{-1, std::string(what) + ": " + text};
}

void stop_on_difference(const char *text) {
    throw lab_stop{0, std::string("is not the CPU's reference: ") + text};
}

// What score does not read is small: K and V would be most of the time.
qsa_geometry without_attention(qsa_geometry g) {
    g.heads = g.kv_heads = 1, g.head_dim = 2;
    return g;
}

// Most calls are small: the reference runs on one CPU thread, and what a kernel gets wrong shows at few cells as well.
qsa_geometry affordable(qsa_geometry g) {
    const int64_t most = ((int64_t)1 << 22) / ((int64_t)g.heads * g.head_dim * g.ratio);
    g.budget = g.ratio * (int32_t)std::max<int64_t>(1, std::min<int64_t>(g.budget / g.ratio, most));
    return g;
}

// Sequences of the model beside the budget, in every remainder of a block.
void beside_budget(int kernel, int k) {
    const qsa_geometry g = preset();
    // Either half under both rules: the reference takes a tenth of a second for a row.
    const std::vector<int32_t> cells =
        k < 2 ? std::vector<int32_t>{2048, 2049, 2050, 2051, 65} : std::vector<int32_t>{2052, 2053, 2054, 2055, 3001};
    const qsa_rule rule = k % 2 ? QSA_RULE_CUT : QSA_RULE_OFFICIAL;
    if (kernel == LAB_DEVICE_score)
        test_score(without_attention(g), k ? 1000 : 0, pick({2051, 2052, 2055, 8192}));
    else if (kernel == LAB_DEVICE_topk)
        test_topk(g, k, 514 + below(4), 3, rule);
    else if (kernel == LAB_DEVICE_prep || kernel == LAB_DEVICE_commit)
        test_prep(g, k ? 50 : 0, k < 2 ? raw_rows::PLAIN : raw_rows::WHOLE, k % 2 ? 80 : 8);
    else if (kernel == LAB_DEVICE_gate)
        test_gate(g, k ? 50 : 0, 11);
    else
        test_attend(g, k ? 100000 : 0, cells, rule, false);
}

void one_call(int kernel, int32_t i) {
    const qsa_geometry model = preset();
    if (kernel == LAB_DEVICE_score) {
        const qsa_geometry g = without_attention(chance(2) ? model : any_geometry());
        const int32_t large = g.index_dim * g.index_heads <= 1024 ? 20000 : 3000; // the reference's time
        test_score(g, pick({0, 100, 3000}), between(0, i % 8 ? 800 : large));
    } else if (kernel == LAB_DEVICE_topk) {
        qsa_geometry g = chance(2) ? model : any_geometry();
        if (chance(6))
            g.budget = g.ratio * between(1, 9000);
        const int32_t blocks = std::max(g.budget / g.ratio + 2, pick({600, 3000, 8192, 8193, i % 8 ? 9000 : 70000}));
        const bool many = i % 50 == 49; // beyond 132 rows thread blocks are smaller
        test_topk(g, i % 8, many ? 4000 : blocks + below(9), many ? 140 : between(1, 3),
                  pick({QSA_RULE_OFFICIAL, QSA_RULE_CUT}));
    } else if (kernel == LAB_DEVICE_prep || kernel == LAB_DEVICE_commit) {
        const int how = pick({raw_rows::ANY, raw_rows::PLAIN, raw_rows::WHOLE});
        if (i % 3 == 0)
            test_prep(wide_geometry(), pick({0, 5, 50, 1000, 100000}), raw_rows::WHOLE, between(1, 40));
        else
            test_prep(chance(2) ? model : any_geometry(), pick({0, 5, 50, 1000}), how, between(1, 10));
    } else if (kernel == LAB_DEVICE_gate) {
        test_gate(any_geometry(), pick({0, 20, 1000}), between(1, 9));
    } else if (kernel == LAB_DEVICE_merge && i % 4) {
        test_merge_records(any_geometry(), between(1, i % 3 ? 20 : 300));
    } else {
        const qsa_geometry g = i % 16 ? affordable(any_geometry()) : any_geometry();
        std::vector<int32_t> cells;
        for (int n = between(1, 4); n > 0; n--)
            cells.push_back(chance(8) ? 0 : chance(2) ? g.budget + between(-1, 2 * g.ratio) : below(3 * g.budget + 9));
        test_attend(g, pick({0, 2000, 100000}), cells, pick({QSA_RULE_OFFICIAL, QSA_RULE_CUT}), false);
    }
}

// A call with both poisons, from the same numbers.
template <class F> void with_poisons(state *s, F call) {
    const uint64_t start = g_state;
    uint64_t end = start;
    for (int k = 0; k < 2; k++) {
        g_state = start;
        g_poison = k ? 0x5a : 0xff; // 0xff: NaN
        s->again = k == 1;
        try {
            call();
        } catch (const seen &) {
        }
        end = k ? end : g_state;
    }
    g_state = end;
}

void all_calls(state *s) {
    const lab_device_plan *plan = s->plan;
    g_state = 88172645463325252ull ^ (plan->seed * 0x9e3779b97f4a7c15ull);
    g_state = g_state ? g_state : 1;
    for (int k = 0; plan->boundaries && k < 4; k++)
        with_poisons(s, [&] { beside_budget(plan->kernel, k); });
    for (int32_t i = 0; i < plan->calls; i++)
        with_poisons(s, [&] { one_call(plan->kernel, i); });
}

} // namespace

void lab_cuda_prove(const lab_device_plan *plan, lab_device_proof *proof) {
    state s = {plan, proof, {}, false};
    g_state_of_proof = &s;
    g_run = run_both;
    g_on_error = stop_on_error;
    g_on_difference = stop_on_difference;
    try {
        for (int i = 0; i < 2; i++) {
            s.arm[i].reset(new lab_module(plan->arm[i], i));
            lab_scene_resources(s.arm[i].get(), plan->kernel, proof->resources[i]);
        }
        all_calls(&s);
        proof->passed = true;
    } catch (const lab_stop &stop) {
        snprintf(proof->complaint, sizeof proof->complaint, "%.590s", stop.why.c_str());
        proof->baseline_failed = stop.arm == 0;
        proof->finished = stop.arm >= 0;
        return;
    } catch (const std::exception &e) {
        snprintf(proof->complaint, sizeof proof->complaint, "%.590s", e.what());
        return;
    }
    proof->finished = true;
}
