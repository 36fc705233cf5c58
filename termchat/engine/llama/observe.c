/* One step of the loop, observed: what takes numpy and Python most of a millisecond between two decodes, whose weights have
 * pushed their code and data out of the processor's caches, takes this a tenth of one. The numbers are those of
 * `decoding/arithmetic.py` and `decoding/draw.py`, which are used where this was not built, and which say what they mean.
 *
 * Plain C11 without dependencies, called through ctypes; llama.cpp's samplers come in as function pointers.
 */

#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ABI 13
#define GROUP 64
#define MAX_GROUPS 8192 /* vocabularies up to 524,288 */
#define MAX_NEAR 2048
#define MAX_LEFT 512
#define LANES 8
#define BLOCK 512

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif
#define INLINE static inline __attribute__((always_inline))

/* llama_token_data and llama_token_data_array */
typedef struct {
    int32_t id;
    float logit;
    float p;
} token;

typedef struct {
    token *data;
    size_t size;
    int64_t selected;
    bool sorted;
} tokens;

typedef void (*apply_sampler)(void *sampler, tokens *left);

int termchat_abi(void) { return ABI; }

/* --- stages that are ours ---------------------------------------------------------------------------------------------
 *
 * Those in which llama.cpp draws or keeps a state, without its draw, and those that it lacks; `decoding/arithmetic.py` says
 * what they do. `llama_sampler_init` makes samplers of them, of which the second word is what they are called with.
 */

typedef struct {
    const void *interface;
    const void *with;
} sampler;

static int by_logit(const void *a, const void *b) { /* highest first, of equals the lowest id */
    const token *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Ascending where the logits descend. */
static uint32_t key_of(float logit) {
    uint32_t bits;
    logit += 0.0f; /* -0 is 0 */
    memcpy(&bits, &logit, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

#define DIGIT 11

/* As `qsort` by logit, for whole rows: digit by digit, first by id where they are in another order. */
static bool sort_by_digits(tokens *t) {
    token *from = t->data, *to = malloc(t->size * sizeof *to), *room = to;
    bool ordered = true;
    if (!to) return false;
    for (size_t i = 1; i < t->size; i++) ordered = ordered && from[i - 1].id < from[i].id;
    for (int pass = ordered ? 2 : 0; pass < 5; pass++) { /* two of ids (below 2^22), three of logits */
        size_t places[1 << DIGIT] = {0}, total = 0;
        int shift = DIGIT * (pass < 2 ? pass : pass - 2);
        for (size_t i = 0; i < t->size; i++)
            places[(pass < 2 ? (uint32_t)from[i].id : key_of(from[i].logit)) >> shift & ((1 << DIGIT) - 1)]++;
        for (int i = 0; i < 1 << DIGIT; i++) {
            size_t count = places[i];
            places[i] = total;
            total += count;
        }
        for (size_t i = 0; i < t->size; i++)
            to[places[(pass < 2 ? (uint32_t)from[i].id : key_of(from[i].logit)) >> shift & ((1 << DIGIT) - 1)]++] = from[i];
        token *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != t->data) memcpy(t->data, from, t->size * sizeof *from);
    free(room);
    return true;
}

static void sort(tokens *t) { /* what llama.cpp sorted, too: it leaves equals in any order */
    if (t->size < 1 << DIGIT || !sort_by_digits(t)) qsort(t->data, t->size, sizeof *t->data, by_logit);
    t->sorted = true;
}

/* llama.cpp's softmax: float32, summed one after the other. */
static void softmax(tokens *t) {
    float highest = -INFINITY, sum = 0;
    for (size_t i = 0; i < t->size; i++) highest = t->data[i].logit > highest ? t->data[i].logit : highest;
    for (size_t i = 0; i < t->size; i++) sum += t->data[i].p = expf(t->data[i].logit - highest);
    for (size_t i = 0; i < t->size; i++) t->data[i].p /= sum;
}

/* The mass of all, where each weighs e^(logit - the first one's); they are sorted. */
static double mass_of(const tokens *t) {
    double mass = 0;
    for (size_t i = 0; i < t->size; i++) mass += exp((double)t->data[i].logit - t->data[0].logit);
    return mass;
}

/* DRY's penalty of each token that would continue a repetition: see `dry.py`. */
typedef struct {
    const int32_t *ids;
    const float *penalties;
    int64_t count;
} dry;

void termchat_stage_dry(sampler *s, tokens *t) {
    const dry *with = s->with;
    for (size_t i = 0; i < t->size && with->count; i++)
        for (int j = 0; j < with->count; j++)
            if (t->data[i].id == with->ids[j]) t->data[i].logit -= with->penalties[j];
    t->sorted = false;
}

typedef struct {
    float probability, threshold, chance;
} xtc;

void termchat_stage_xtc(sampler *s, tokens *t) {
    const xtc *with = s->with;
    if (with->threshold > 0.5f || t->size < 2 || with->chance > with->probability) return;
    sort(t);
    softmax(t);
    size_t last = 0;
    for (size_t i = 0; i < t->size && t->data[i].p >= with->threshold; i++) last = i;
    t->data += last;
    t->size -= last;
}

typedef struct {
    float mu, n_vocab;
} mirostat;

void termchat_stage_mirostat1(sampler *s, tokens *t) {
    const mirostat *with = s->with;
    const int most = 100;
    float products = 0, squares = 0;
    sort(t);
    softmax(t);
    for (size_t i = 0; i < (size_t)most - 1 && i + 1 < t->size; i++) {
        float ranks = logf((float)(i + 2) / (float)(i + 1)), fall = logf(t->data[i].p / t->data[i + 1].p);
        products += ranks * fall;
        squares += ranks * ranks;
    }
    float exponent = products / squares, excess = exponent - 1;
    float kept = powf((excess * powf(2, with->mu)) / (1 - powf(with->n_vocab, -excess)), 1 / exponent);
    size_t count = !(kept >= 1) ? 1 : kept >= 2147483648.0f ? t->size : (size_t)kept;
    if (count < t->size) t->size = count;
}

void termchat_stage_mirostat2(sampler *s, tokens *t) {
    const mirostat *with = s->with;
    size_t count = 0;
    sort(t);
    softmax(t);
    while (count < t->size && !(-log2f(t->data[count].p) > with->mu)) count++;
    t->size = count ? count : 1;
}

typedef struct {
    float target, sum, weight;
} adaptive;

static float within(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* Each `p` stays what it was before: the next state is made with it. */
void termchat_stage_adaptive_p(sampler *s, tokens *t) {
    const adaptive *with = s->with;
    softmax(t);
    if (with->target < 0) return;
    float target = within(with->target), aim = with->weight == 0 ? target : within(2 * target - with->sum / with->weight);
    for (size_t i = 0; i < t->size; i++) {
        if (!isfinite(t->data[i].logit)) continue;
        float distance = fabsf((t->data[i].p - aim) * (1.0f / 0.3f));
        t->data[i].logit = 5.0f - 10.0f * distance * distance / (1.0f + distance);
    }
    t->sorted = false;
}

void termchat_stage_p_less(sampler *s, tokens *t) {
    (void)s;
    sort(t);
    double mass = mass_of(t), squares = 0;
    size_t count = 0;
    for (size_t i = 0; i < t->size; i++) {
        double p = exp((double)t->data[i].logit - t->data[0].logit) / mass;
        squares += p * p;
    }
    while (count < t->size && exp((double)t->data[count].logit - t->data[0].logit) / mass >= squares) count++;
    t->size = count ? count : 1;
}

typedef struct {
    double share;
} top_h;

void termchat_stage_top_h(sampler *s, tokens *t) {
    const top_h *with = s->with;
    if (t->size < 2 || with->share >= 1) return;
    sort(t);
    double mass = mass_of(t), entropy = 0, kept = 0, parts = 0;
    for (size_t i = 0; i < t->size; i++) {
        double p = exp((double)t->data[i].logit - t->data[0].logit) / mass;
        if (p > 0) entropy -= p * log(p);
    }
    size_t count = 0;
    for (; count < t->size; count++) {
        double p = exp((double)t->data[count].logit - t->data[0].logit) / mass;
        kept += p;
        if (p > 0) parts -= p * log(p);
        if (count && parts / kept + log(kept) > with->share * entropy) break;
    }
    t->size = count;
}

typedef struct {
    double least;
} min_k;

void termchat_stage_min_k(sampler *s, tokens *t) {
    const min_k *with = s->with;
    sort(t);
    size_t size = t->size, cliff = 0;
    while (size && !isfinite(t->data[size - 1].logit)) size--;
    if (size < 2) return;
    double reach = (double)t->data[0].logit - t->data[size - 1].logit, steepest = -1;
    if (!(reach > 0)) return;
    for (size_t i = 0; i + 1 < size; i++) {
        double drop = ((double)t->data[i].logit - t->data[i + 1].logit) / (double)(i + 1);
        if (drop > steepest) {
            steepest = drop;
            cliff = i + 1;
        }
    }
    double least = with->least / reach;
    size_t count = least < (double)size ? (size_t)least : size;
    t->size = count > cliff ? count : cliff;
}

/* --- the model's own softmax ------------------------------------------------------------------------------------------ */

typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Lane by lane the larger one. */
INLINE floats larger(floats a, floats b) {
    ints first = a > b;
    return (floats)((first & (ints)a) | (~first & (ints)b));
}

/* e^x for x in [-87, 0], within 2e-7 of it: 2^n times a polynomial in what is left of x log2 e. */
INLINE floats exp_of(floats x) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    floats n = x * 1.44269504f + shift;
    ints exponent = ((ints)n + 127) << 23;
    n -= shift;
    floats r = x - n * 0.693145752f - n * 1.42860677e-6f;
    floats e = 1.0f + r * (1.0f + r * (0.5f + r * (0.166666672f + r * (0.0416664854f + r * (0.00833336823f +
               r * (0.00139300420f + r * 1.99e-4f))))));
    return e * (floats)exponent;
}

/* Sums of exp(logit - highest) and of exp(logit - highest) * (logit - highest), in doubles over float32 sums of few. */
WIDE static void masses(const float *logits, int n, float highest, double *mass, double *weighted) {
    double total = 0, moment = 0;
    const floats lowest = {0};
    for (int begin = 0; begin < n; begin += BLOCK) {
        int count = n - begin < BLOCK ? n - begin : BLOCK;
        floats sum = {0}, product = {0};
        for (int i = 0; i < count; i += LANES) {
            floats x;
            if (count - i >= LANES) {
                x = *(const floats *)(logits + begin + i) - highest;
            } else {
                x = lowest - INFINITY;
                for (int j = 0; j < count - i; j++) x[j] = logits[begin + i + j] - highest;
            }
            x = larger(x, lowest - 87.0f); /* what is masked with -inf, too: e^-87 is nothing in these sums */
            floats e = exp_of(x);
            sum += e;
            product += e * x;
        }
        for (int j = 0; j < LANES; j++) {
            total += sum[j];
            moment += product[j];
        }
    }
    *mass = total;
    *weighted = moment;
}

/* How many logits are not masked with -inf, and the sums of logit - highest and of its square over those. */
typedef struct {
    double count, sum, squares;
} moments;

WIDE static moments moments_of(const float *logits, int n, float highest) {
    moments all = {0, 0, 0};
    for (int begin = 0; begin < n; begin += BLOCK) {
        int count = n - begin < BLOCK ? n - begin : BLOCK, masked = 0;
        floats sum = {0}, squares = {0};
        ints off = {0};
        for (int i = 0; i + LANES <= count; i += LANES) {
            floats x = *(const floats *)(logits + begin + i) - highest;
            ints some = x > -INFINITY;
            x = (floats)(some & (ints)x);
            off += some + 1;
            sum += x;
            squares += x * x;
        }
        for (int i = count / LANES * LANES; i < count; i++) {
            double x = (double)logits[begin + i] - highest;
            if (!isfinite(x)) {
                masked++;
                continue;
            }
            all.sum += x;
            all.squares += x * x;
        }
        for (int j = 0; j < LANES; j++) {
            all.sum += sum[j];
            all.squares += squares[j];
            masked += off[j];
        }
        all.count += count - masked;
    }
    return all;
}

static void add(moments *m, const tokens *t, double highest, int sign) {
    for (size_t i = 0; i < t->size; i++) {
        double x = (double)t->data[i].logit - highest;
        if (!isfinite(x)) continue;
        m->count += sign;
        m->sum += sign * x;
        m->squares += sign * x * x;
    }
}

static double deviation(const moments *m) {
    double mean = m->count > 0 ? m->sum / m->count : 0, variance = m->count > 0 ? m->squares / m->count - mean * mean : 0;
    return variance > 0 ? sqrt(variance) : 0;
}

/* The highest logit of each group of `GROUP`. */
WIDE static void group_maxima(const float *logits, int groups, float *maxima) {
    for (int g = 0; g < groups; g++) {
        const floats *row = (const floats *)(logits + (size_t)g * GROUP);
        floats high = row[0];
        for (int i = 1; i < GROUP / LANES; i++) high = larger(row[i], high);
        float highest = high[0];
        for (int j = 1; j < LANES; j++) highest = high[j] > highest ? high[j] : highest;
        maxima[g] = highest;
    }
}

/* The count-th largest of n values, 1 <= count <= n, which are put into another order (Hoare's selection). */
static float nth_largest(float *values, int n, int count) {
    int left = 0, right = n - 1, place = count - 1;
    while (left < right) {
        float pivot = values[(left + right) / 2];
        int i = left, j = right;
        while (i <= j) {
            while (values[i] > pivot) i++;
            while (values[j] < pivot) j--;
            if (i <= j) {
                float swapped = values[i];
                values[i++] = values[j];
                values[j--] = swapped;
            }
        }
        if (place <= j) right = j;
        else if (place >= i) left = i;
        else break;
    }
    return values[place];
}

static int by_id(const void *a, const void *b) {
    const token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* --- one step --------------------------------------------------------------------------------------------------------- */

typedef struct {
    /* What is asked of every step. */
    const float *logits; /* n_vocab of them; they stay as they are */
    uint64_t seed, step;
    int32_t needs;    /* so many of the highest logits hold all that can be left */
    int32_t forced;   /* this id is chosen, whatever the dice say; -1: none */
    int32_t n_moving; /* what the sparse stages may change; an id may stand there several times */
    /* What stays. */
    int32_t n_vocab, n_ends, n_stages, n_biased;
    int32_t candidates; /* so many of the highest are watched */
    uint32_t masking;   /* the stages that mask with -inf instead of cutting: the n-th bit is the n-th stage's */
    int32_t hiding;     /* the stage until which what is not near is only hidden: the first that cuts */
    int32_t cut;        /* what that leaves: see below */
    int32_t after;      /* the grammar masks what the other stages left */
    float share;        /* min_p's or top_n_sigma's knob */
    double change;      /* the most by which a difference of two logits may be another; 0: no near ties are looked for */
    const int32_t *rules;  /* how each stage cuts: see below */
    const int32_t *ends;   /* the end tokens */
    const int32_t *biased; /* tokens whose logits a bias moves, without banning them, and by how much */
    const double *knobs;   /* of the rules */
    const double *bias;
    const int32_t *moving;
    const uint32_t *allowed; /* by the grammar, a bit each; NULL: there is none */
    float *masked;           /* room for n_vocab logits; the grammar's business */
    void *const *samplers;   /* the stages */
    apply_sampler apply;
    /* What is answered; the columns have room for `candidates` + 2 tokens, `survivors` for a number a stage. */
    int32_t n_watched;
    int32_t chosen; /* which of the watched was drawn or forced */
    int32_t rank;   /* how many raw logits are higher than its */
    int32_t near_tie;
    int32_t n_allowed, n_kept; /* tokens that the grammar allows, of all and of those that it was given */
    double entropy;            /* bits */
    double p_end;
    double before; /* the chosen one's p as the last stage found it, in llama.cpp's way; 0 where it is not left */
    double won;    /* the probability of what the dice take */
    double margin; /* NaN where one token was left, or none was drawn */
    double kept, kept_of_all; /* the share of the mass of those, of what it was given and of the model's own */
    int32_t *ids;
    int32_t *removed_by; /* the number of a stage, -1 for none */
    int32_t *survivors;
    double *logits_of, *logprobs, *probabilities, *noise;
    double *biases; /* NaN for none */
    double *masses; /* what the survivors hold of the mass that the stage was given */
} step;

static bool is_allowed(const step *s, int32_t id) { return s->allowed[id >> 5] >> (id & 31) & 1; }

static int count_allowed(const step *s) {
    int words = s->n_vocab >> 5, rest = s->n_vocab & 31, count = 0;
    for (int i = 0; i < words; i++) count += __builtin_popcount(s->allowed[i]);
    return rest ? count + __builtin_popcount(s->allowed[words] & ((1u << rest) - 1)) : count;
}

/* Writes the row without what the grammar does not allow. */
static void mask_row(step *s) {
    int n = s->n_vocab;
    for (int begin = 0; begin < n; begin += 32) {
        int end = begin + 32 < n ? begin + 32 : n;
        uint32_t bits = s->allowed[begin >> 5];
        if (end - begin < 32) bits &= (1u << (end - begin)) - 1;
        if (!bits) {
            for (int i = begin; i < end; i++) s->masked[i] = -INFINITY;
        } else if (bits == UINT32_MAX) {
            memcpy(s->masked + begin, s->logits + begin, 32 * sizeof(float));
        } else {
            for (int i = begin; i < end; i++) s->masked[i] = bits >> (i - begin) & 1 ? s->logits[i] : -INFINITY;
        }
    }
}

/* All tokens that the grammar allows, highest first, where they are few. */
static int list_allowed(const step *s, token *near) {
    int have = 0;
    for (int begin = 0; begin < s->n_vocab; begin += 32) {
        if (!s->allowed[begin >> 5]) continue;
        int end = begin + 32 < s->n_vocab ? begin + 32 : s->n_vocab;
        for (int i = begin; i < end; i++)
            if (is_allowed(s, i)) near[have++] = (token){i, s->logits[i], 0};
    }
    qsort(near, (size_t)have, sizeof *near, by_logit);
    return have && isfinite(near[0].logit) ? have : 0;
}

/* The first stage that cuts leaves the highest logits, or those above a floor under the highest one: at `share` of its
 * probability, or so many standard deviations below it. */
enum { HIGHEST, MIN_P, TOP_N_SIGMA };

typedef struct {
    const float *row;
    float maxima[MAX_GROUPS], ordered[MAX_GROUPS];
    moments all; /* where top_n_sigma is the first that cuts */
    float bound; /* all logits from here on are near */
} view;

/* The tokens with logits from `v->bound` on, highest first; how many there are, 0 where they do not fit. */
static int collect(const step *s, const view *v, token *near) {
    int groups = s->n_vocab / GROUP, have = 0;
    for (int g = 0; g <= groups; g++) {
        int begin = g * GROUP, end = g < groups ? begin + GROUP : s->n_vocab;
        if (g < groups && !(v->maxima[g] >= v->bound)) continue;
        for (int i = begin; i < end; i++)
            if (v->row[i] >= v->bound) {
                if (have == MAX_NEAR) return 0;
                near[have++] = (token){i, v->row[i], 0};
            }
    }
    qsort(near, (size_t)have, sizeof *near, by_logit);
    return have;
}

/* How far a floor so many standard deviations below the highest logit may move, from any logit: the deviation changes by no
 * more than that of the changes, which is at most half of their range. */
static double reach_of(const step *s, double deviations) { return s->change * (1 + deviations / 2); }

static bool is_moving(const step *s, int32_t id) {
    for (int i = 0; i < s->n_moving; i++)
        if (s->moving[i] == id) return true;
    return false;
}

/* The tokens of a row that hold at least the `count` highest logits, and all that a first `cut` can leave, or could with a
 * `change` where it is a floor; as `collect`. */
static int look(const step *s, const float *row, int count, int cut, view *v, token *near) {
    int groups = s->n_vocab / GROUP, first = 0;
    v->row = row;
    if (groups < count || groups > MAX_GROUPS || count < 1) return 0;
    group_maxima(row, groups, v->maxima);
    memcpy(v->ordered, v->maxima, sizeof(float) * (size_t)groups);
    v->bound = nth_largest(v->ordered, groups, count); /* not above the count-th highest logit */
    int have = collect(s, v, near);
    if (have < count || !isfinite(near[0].logit)) return 0;
    if (cut == HIGHEST) return have;
    /* The highest that no stage moves is not above the highest of all when the cut comes. */
    while (first < have && is_moving(s, near[first].id)) first++;
    if (first == have) return 0;
    float highest = near[first].logit, least;
    if (cut == MIN_P) {
        least = highest + logf(s->share);
    } else {
        v->all = moments_of(row, s->n_vocab, near[0].logit);
        least = highest - (float)(1.01 * s->share * deviation(&v->all)); /* which the stages before may change a little */
    }
    least -= (float)reach_of(s, cut == MIN_P ? 0 : s->share);
    if (!(least < v->bound)) return have;
    v->bound = least;
    return collect(s, v, near);
}

/* What is near and what moves, each once, by id: llama.cpp's samplers leave ties as they find them. */
static size_t gather(const step *s, const token *near, int n_near, bool first, token *room) {
    int all = n_near;
    size_t size = 0;
    memcpy(room, near, sizeof *room * (size_t)n_near);
    for (int i = 0; i < s->n_moving; i++)
        if (!first || is_allowed(s, s->moving[i])) room[all++] = (token){s->moving[i], s->logits[s->moving[i]], 0};
    qsort(room, (size_t)all, sizeof *room, by_id);
    for (int i = 0; i < all; i++)
        if (!size || room[size - 1].id != room[i].id) room[size++] = room[i];
    return size;
}

/* Which of the watched it is, from now on. */
static int watch(step *s, int32_t id) {
    int at = 0;
    while (at < s->n_watched && s->ids[at] != id) at++;
    if (at == s->n_watched) {
        s->ids[at] = id;
        s->logits_of[at] = s->logits[id];
        s->removed_by[at] = -1;
        s->biases[at] = NAN;
        for (int i = 0; i < s->n_biased; i++)
            if (s->biased[i] == id) s->biases[at] = s->bias[i];
        s->n_watched++;
    }
    return at;
}

/* `seen`: all others are gone; until then they are only hidden. */
static bool is_left(const tokens *left, int32_t id, bool seen) {
    for (size_t i = 0; i < left->size; i++)
        if (left->data[i].id == id) return isfinite(left->data[i].logit);
    return !seen;
}

/* What the tokens weigh that the next stage is given: e^(logit - highest) of each by its place among the `ids`, which ascend;
 * and of those together that are not in the array. */
typedef struct {
    int32_t ids[MAX_NEAR];
    double weights[MAX_NEAR], hidden, highest, mass;
    int n;
} scales;

static int place_of(const scales *w, int32_t id) {
    int low = 0, high = w->n - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (w->ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void weigh(scales *w, const tokens *left) {
    double highest = -INFINITY;
    for (size_t i = 0; i < left->size; i++) highest = left->data[i].logit > highest ? left->data[i].logit : highest;
    w->hidden *= exp(w->highest - highest);
    w->highest = highest;
    w->mass = w->hidden;
    memset(w->weights, 0, sizeof *w->weights * (size_t)w->n);
    for (size_t i = 0; i < left->size; i++)
        w->mass += w->weights[place_of(w, left->data[i].id)] = exp((double)left->data[i].logit - highest);
}

/* What `is_near_tie` looks at: the tokens that the first cut is given, and the standard deviation of all. `alive` are left at
 * the end, before a grammar that follows; `ahead` is the margin of a greedy draw. */
typedef struct {
    token base[MAX_NEAR];
    int size, alive;
    double deviation, ahead;
} field;

/* llama.cpp's top_n_sigma, where `hidden` are not in the array; false where the floor is below what is. */
static bool cut_by_deviation(const step *s, const view *v, tokens *left, moments hidden, double zero, field *f) {
    float highest = -INFINITY;
    for (size_t i = 0; i < left->size; i++) highest = left->data[i].logit > highest ? left->data[i].logit : highest;
    add(&hidden, left, zero, 1);
    f->deviation = deviation(&hidden);
    float least = highest - s->share * (float)f->deviation;
    for (size_t i = 0; i < left->size; i++)
        if (left->data[i].logit < least) left->data[i].logit = -INFINITY;
    return least >= v->bound;
}

/* How each stage cuts, for near ties: it leaves so many, or those that hold a share, or what is above a floor, in logits or in
 * standard deviations below the highest; it divides by the temperature, 0 or less where that is greedy; or no bound is known for
 * what it does. */
enum { NO_CUT, COUNT, SHARE, FLOOR, DEVIATION, HEAT, UNBOUNDED };

static void keep_base(field *f, const tokens *left) {
    f->size = 0;
    for (size_t i = 0; i < left->size; i++)
        if (isfinite(left->data[i].logit)) f->base[f->size++] = left->data[i];
}

/* How far the highest is ahead of the second; NaN where there is none. */
static double lead_of(const tokens *left) {
    float first = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < left->size; i++) {
        float logit = left->data[i].logit;
        second = logit > first ? first : logit > second ? logit : second;
        first = logit > first ? logit : first;
    }
    return isfinite(second) ? (double)first - second : NAN;
}

/* `mass` is that of the `total` tokens that the chain is given, where the `highest` logit weighs 1. With `last` the grammar
 * follows the other stages. False where what is near is not enough, or nothing is left. */
static bool apply_stages(step *s, const view *v, tokens *left, double highest, double mass, int total, bool last, field *f) {
    moments hidden = v->all;
    if (s->cut == TOP_N_SIGMA) add(&hidden, left, highest, -1);
    scales w = {.hidden = mass, .highest = highest, .n = (int)left->size};
    size_t alive = left->size;
    bool seen = false;
    for (int i = 0; i < w.n; i++) {
        w.ids[i] = left->data[i].id;
        w.hidden -= exp((double)left->data[i].logit - highest);
    }
    if (w.hidden < 0 || w.n == total) w.hidden = 0;
    weigh(&w, left);
    for (int number = 0; number < s->n_stages; number++) {
        if (number == s->hiding) keep_base(f, left);
        if (s->rules[number] == HEAT && s->knobs[number] <= 0) f->ahead = lead_of(left);
        if (number != s->hiding || s->cut != TOP_N_SIGMA) s->apply(s->samplers[number], left);
        else if (!cut_by_deviation(s, v, left, hidden, highest, f)) return false;
        size_t now = left->size;
        if (s->masking & ((2u << number) - 1)) {
            now = 0;
            for (size_t i = 0; i < left->size; i++) now += isfinite(left->data[i].logit) != 0;
        }
        if (now < alive || (number == s->hiding && !seen)) {
            seen = seen || number >= s->hiding; /* what is before that one cuts single tokens, such as banned ones */
            for (int i = 0; i < s->n_watched; i++)
                if (s->removed_by[i] < 0 && !is_left(left, s->ids[i], seen)) s->removed_by[i] = number;
            alive = now;
        }
        double kept = seen ? 0 : w.hidden;
        for (size_t i = 0; i < left->size; i++)
            if (isfinite(left->data[i].logit)) kept += w.weights[place_of(&w, left->data[i].id)];
        s->survivors[number] = (int32_t)alive + (seen ? 0 : total - w.n);
        s->masses[number] = w.mass > 0 && kept < w.mass ? kept / w.mass : 1;
        if (seen) w.hidden = 0;
        weigh(&w, left);
    }
    if (s->hiding >= s->n_stages) keep_base(f, left);
    f->alive = (int)alive;
    if (!last) return true;
    double kept = 0;
    size_t size = 0;
    for (size_t i = 0; i < left->size; i++)
        if (isfinite(left->data[i].logit) && is_allowed(s, left->data[i].id)) {
            kept += w.weights[place_of(&w, left->data[i].id)];
            left->data[size++] = left->data[i];
        }
    for (int i = 0; i < s->n_watched; i++)
        if (s->removed_by[i] < 0 && !is_allowed(s, s->ids[i])) s->removed_by[i] = s->n_stages;
    left->size = size;
    s->n_kept = (int32_t)size;
    s->kept = w.mass > 0 && kept < w.mass ? kept / w.mass : 1;
    return size && seen;
}

static uint64_t mixed(uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static double uniform_of(uint64_t key, int32_t id) {
    return ((double)(mixed((uint64_t)id ^ key) >> 12) + 0.5) * 0x1p-52;
}

static double noise_of(uint64_t key, int32_t id) { return -log(-log(uniform_of(key, id))); }

static int count_from(const field *f, double logit) {
    int count = 0;
    while (count < f->size && f->base[count].logit >= logit) count++;
    return count;
}

/* The highest logit of the tokens that are not near; few steps need it. */
static double highest_hidden(const step *s, const view *v) {
    float highest = -INFINITY;
    for (int i = 0; i < s->n_vocab; i++)
        if (v->row[i] < v->bound && v->row[i] > highest && !is_moving(s, i)) highest = v->row[i];
    return highest;
}

/* Whether a token could win instead of the one that won if the differences of logits were others, each by up to `s->change`: see
 * `is_near_tie` of `decoding/draw.py`. */
static bool is_near_tie(const step *s, const view *v, field *f, int32_t won, uint64_t key, double ahead, int total, bool last) {
    double change = s->change, heat = 1, low = -INFINITY, sums[MAX_NEAR + 1];
    int size = f->size, sure = size, most = size, w = 0;
    tokens all = {f->base, (size_t)size, -1, false};
    const token *base = f->base;
    bool greedy = false;
    sort(&all);
    while (w < size && base[w].id != won) w++;
    if (w == size) return true;
    double mine = base[w].logit, other = size > 1 ? base[!w].logit : -INFINITY;
    for (int number = 0; number < s->n_stages && !greedy; number++) {
        double knob = s->knobs[number];
        switch (s->rules[number]) {
        case COUNT: {
            double next = knob < size ? base[(int)knob].logit : size < total ? highest_hidden(s, v) : -INFINITY;
            if (next >= low && mine - next <= change) return true;
            if (knob > size) break;
            low = fmax(low, base[(int)knob - 1].logit - change);
            sure = fmin(sure, knob);
            most = fmin(most, knob);
            break;
        }
        case FLOOR:
        case DEVIATION: {
            double depth = s->rules[number] == FLOOR ? knob * heat : knob * f->deviation;
            double reach = reach_of(s, s->rules[number] == FLOOR ? 0 : knob);
            if (other >= low && mine - other + depth <= reach) return true;
            low = fmax(low, base[0].logit - depth - reach);
            sure = fmin(sure, count_from(f, base[0].logit - depth + reach));
            most = fmin(most, count_from(f, base[0].logit - depth - reach));
            break;
        }
        case SHARE: {
            double odds = knob / (1 - knob), tilt = exp(change / heat);
            int above = count_from(f, fmax(low, nextafter(mine - change, INFINITY))), i = 0, j = 0;
            sums[0] = 0;
            for (int n = 0; n < size; n++) sums[n + 1] = sums[n] + exp(((double)base[n].logit - base[0].logit) / heat);
            double weight = sums[w + 1] - sums[w], rest = sums[sure > above ? sure : above] - sums[above] + weight;
            if (above > 1 && (sums[above] - weight) * tilt >= odds * rest) return true;
            for (; i < most; i++) {
                while (base[j].logit > base[i].logit + change) j++;
                if (j && sums[j] >= tilt * odds * (sums[most] - sums[j])) break;
            }
            if (i < most) low = fmax(low, base[i - 1].logit);
            most = i;
            break;
        }
        case HEAT:
            greedy = knob <= 0;
            heat = knob;
            break;
        case UNBOUNDED:
            if (other >= low) return true;
        }
    }
    if (greedy) return other >= low && mine - other <= change;
    if (ahead * heat <= change) return true;
    double target = mine / heat + noise_of(key, won) - change / heat; /* the scores from which on a token could win */
    for (int i = f->alive; i < size && base[i].logit >= low; i++)
        if (i != w && (!last || is_allowed(s, base[i].id)) && base[i].logit / heat + noise_of(key, base[i].id) >= target)
            return true;
    if (size == total || low >= v->bound) return false;
    double least = exp(-exp(v->bound / heat - target)); /* quicker than the noise of each */
    for (int g = 0, groups = s->n_vocab / GROUP; g <= groups; g++) {
        int begin = g * GROUP, end = g < groups ? begin + GROUP : s->n_vocab;
        if (g < groups && !(v->maxima[g] >= low)) continue;
        for (int i = begin; i < end; i++)
            if (v->row[i] >= low && v->row[i] < v->bound && uniform_of(key, i) >= least && !is_moving(s, i) &&
                (!last || is_allowed(s, i)) && v->row[i] / heat + noise_of(key, i) >= target)
                return true;
    }
    return false;
}

/* Throws the dice for what is left; false where that is more than is drawn from here. */
static bool draw(step *s, const view *v, const tokens *left, field *f, int total, bool last) {
    int32_t ids[MAX_LEFT], won = -1;
    double noise[MAX_LEFT], weights[MAX_LEFT], mass = 0, best = -INFINITY, second = -INFINITY;
    uint64_t key = mixed(mixed(s->seed) ^ s->step);
    float highest = -INFINITY;
    int count = 0;
    for (size_t i = 0; i < left->size; i++) highest = left->data[i].logit > highest ? left->data[i].logit : highest;
    for (size_t i = 0; i < left->size; i++) {
        const token *one = &left->data[i];
        if (!isfinite(one->logit)) continue;
        if (count == MAX_LEFT) return false;
        double score = (double)one->logit - highest;
        ids[count] = one->id;
        noise[count] = noise_of(key, one->id);
        weights[count] = exp(score);
        mass += weights[count];
        if (score + noise[count] > best) {
            second = best;
            best = score + noise[count];
            won = count;
        } else if (score + noise[count] > second) {
            second = score + noise[count];
        }
        count++;
    }
    if (won < 0) return false;
    s->chosen = watch(s, s->forced >= 0 ? s->forced : ids[won]);
    for (int w = 0; w < s->n_watched; w++) {
        int i = 0;
        while (i < count && ids[i] != s->ids[w]) i++;
        s->probabilities[w] = i < count ? weights[i] / mass : 0.0;
        s->noise[w] = i < count ? noise[i] : noise_of(key, s->ids[w]);
    }
    s->won = weights[won] / mass;
    s->margin = s->forced >= 0 ? NAN : isfinite(second) ? best - second : f->ahead;
    s->near_tie = s->forced < 0 && s->change > 0 && is_near_tie(s, v, f, ids[won], key, s->margin, total, last);
    s->before = 0;
    for (size_t i = 0; i < left->size; i++)
        if (left->data[i].id == s->ids[s->chosen]) s->before = left->data[i].p;
    return true;
}

/* How many raw logits are higher; all of them are near if the token itself is. */
static int rank_of(const step *s, float logit, const token *near, int n_near) {
    int rank = 0;
    if (logit >= near[n_near - 1].logit)
        while (rank < n_near && near[rank].logit > logit) rank++;
    else
        for (int i = 0; i < s->n_vocab; i++) rank += s->logits[i] > logit;
    return rank;
}

/* What the model says by itself, before any sampler: the mass of all tokens, where the highest weighs 1; 0 where that is no
 * distribution. */
static double measure(step *s, float highest) {
    double mass, weighted, ends = 0;
    masses(s->logits, s->n_vocab, highest, &mass, &weighted);
    if (!isfinite(mass) || !isfinite(weighted)) return 0;
    double entropy = (log(mass) - weighted / mass) / log(2);
    for (int i = 0; i < s->n_ends; i++) ends += exp((double)s->logits[s->ends[i]] - highest);
    s->entropy = entropy > 0 ? entropy : 0;
    s->p_end = ends / mass;
    return mass;
}

/* Where the grammar stands `first`: the tokens that can be left of those that it allows. */
static int restrict_to_allowed(step *s, double highest, double mass, view *v, token *near, double *allowed) {
    double unused;
    int n_near;
    if (s->n_allowed <= MAX_NEAR - s->n_moving) {
        n_near = list_allowed(s, near);
        tokens all = {near, (size_t)n_near, -1, true};
        v->bound = -INFINITY;
        v->all = (moments){0, 0, 0};
        *allowed = 0;
        for (int i = 0; i < n_near; i++) *allowed += exp((double)near[i].logit - near[0].logit);
        if (n_near && s->cut == TOP_N_SIGMA) add(&v->all, &all, near[0].logit, 1);
    } else {
        mask_row(s);
        n_near = look(s, s->masked, s->needs, s->cut, v, near);
        if (n_near) masses(s->masked, s->n_vocab, near[0].logit, allowed, &unused);
    }
    if (!n_near) return 0;
    s->n_kept = s->n_allowed;
    s->kept = s->kept_of_all = fmin(exp(log(*allowed) + near[0].logit - highest - log(mass)), 1);
    for (int i = 0; i < s->n_watched; i++)
        if (!is_allowed(s, s->ids[i])) s->removed_by[i] = s->n_stages;
    return n_near;
}

static bool observe(step *s, bool first) {
    token raw[MAX_NEAR], few[MAX_NEAR], room[MAX_NEAR], *near = raw;
    view v;
    int count = first || s->needs < s->candidates ? s->candidates : s->needs, total = s->n_vocab;
    int n_raw = look(s, s->logits, count, first ? HIGHEST : s->cut, &v, raw), n_near = n_raw;
    if (!n_raw) return false;
    double highest = raw[0].logit, mass = measure(s, raw[0].logit), given = mass;
    if (mass == 0) return false;
    s->n_watched = 0;
    for (int i = 0; i < s->candidates; i++) watch(s, raw[i].id);
    if (s->forced >= 0) watch(s, s->forced);
    if (s->allowed) s->n_allowed = count_allowed(s);
    if (first) {
        n_near = restrict_to_allowed(s, highest, mass, &v, few, &given);
        near = few;
        total = s->n_allowed;
    } else if (s->allowed) {
        double unused, weight;
        mask_row(s);
        masses(s->masked, s->n_vocab, (float)highest, &weight, &unused);
        s->kept_of_all = fmin(weight / mass, 1);
    }
    if (!n_near || n_near + s->n_moving > MAX_NEAR) return false;
    tokens left = {room, gather(s, near, n_near, first, room), -1, false};
    field f;
    f.ahead = NAN;
    if (!apply_stages(s, &v, &left, near[0].logit, given, total, s->allowed && !first, &f)) return false;
    if (!draw(s, &v, &left, &f, total, s->allowed && !first)) return false;
    s->rank = rank_of(s, (float)s->logits_of[s->chosen], raw, n_raw);
    for (int w = 0; w < s->n_watched; w++) s->logprobs[w] = s->logits_of[w] - (highest + log(mass));
    return true;
}

/* Observes and draws. False where the step is not of the kind that is done here (hardly anything is finite, many tie, many
 * are left to draw from, the grammar leaves nothing of what the other stages left); nothing has changed then but the answers. */
bool termchat_observe(step *s) { return observe(s, s->allowed && !s->after); }

/* --- its candidates as they travel ------------------------------------------------------------------------------------ */

typedef struct {
    const uint8_t *const *names; /* of tokens and of stages: a length in four bytes, then a text in msgpack; NULL: not known */
    const uint8_t *const *stages;
    uint8_t *out;
    int32_t room;
} packing;

static uint8_t *put_big(uint8_t *out, uint64_t value, int bytes) {
    while (bytes) *out++ = (uint8_t)(value >> (8 * --bytes));
    return out;
}

static uint8_t *put_number(uint8_t *out, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    *out++ = 0xcb;
    return put_big(out, bits, 8);
}

static uint8_t *put_id(uint8_t *out, uint64_t id) {
    int bytes = id < 0x80 ? 0 : id < 0x100 ? 1 : id < 0x10000 ? 2 : 4;
    if (!bytes) {
        *out++ = (uint8_t)id;
        return out;
    }
    *out++ = bytes == 1 ? 0xcc : bytes == 2 ? 0xcd : 0xce;
    return put_big(out, id, bytes);
}

static int length_of(const uint8_t *text) {
    int32_t length;
    memcpy(&length, text, sizeof length);
    return length;
}

static uint8_t *put_text(uint8_t *out, const uint8_t *text) {
    memcpy(out, text + 4, (size_t)length_of(text));
    return out + length_of(text);
}

/* Writes the watched of a step in msgpack, as `Candidate` is written. Returns the length; -1 - i where the i-th watched has no
 * name yet; 0 where there is no room. */
int32_t termchat_pack(const step *s, const packing *p) {
    int64_t need = 5;
    for (int w = 0; w < s->n_watched; w++) {
        const uint8_t *name = p->names[s->ids[w]];
        if (!name) return -1 - w;
        need += 1 + 5 + length_of(name) + 5 * 9 + (s->removed_by[w] < 0 ? 1 : length_of(p->stages[s->removed_by[w]]));
    }
    if (need > p->room) return 0;
    uint8_t *out = p->out;
    *out++ = 0xdc; /* an array, with its length in two bytes */
    out = put_big(out, (uint64_t)s->n_watched, 2);
    for (int w = 0; w < s->n_watched; w++) {
        *out++ = 0x98; /* an array of eight */
        out = put_id(out, (uint64_t)s->ids[w]);
        out = put_text(out, p->names[s->ids[w]]);
        out = put_number(out, s->logits_of[w]);
        out = put_number(out, s->logprobs[w]);
        out = put_number(out, s->probabilities[w]);
        out = put_number(out, s->noise[w]);
        if (s->removed_by[w] < 0) *out++ = 0xc0; /* nil */
        else out = put_text(out, p->stages[s->removed_by[w]]);
        if (isnan(s->biases[w])) *out++ = 0xc0;
        else out = put_number(out, s->biases[w]);
    }
    return (int32_t)(out - p->out);
}

/* --- the C library over a row, for `decoding/arithmetic.py` ------------------------------------------------------------- */

void termchat_expf(const float *from, float *to, int32_t n) {
    for (int32_t i = 0; i < n; i++) to[i] = expf(from[i]);
}

void termchat_logf(const float *from, float *to, int32_t n) {
    for (int32_t i = 0; i < n; i++) to[i] = logf(from[i]);
}

void termchat_log2f(const float *from, float *to, int32_t n) {
    for (int32_t i = 0; i < n; i++) to[i] = log2f(from[i]);
}

/* --- the bytes of all tokens ------------------------------------------------------------------------------------------ */

typedef int32_t (*spell_token)(const void *vocabulary, int32_t id, char *out, int32_t room, int32_t lstrip, bool special);

/* Writes them one after the other, and where each ends; false where there is no room. */
bool termchat_spell(spell_token spell, const void *vocabulary, int32_t n, char *out, int32_t room, int64_t *ends) {
    int32_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t length = spell(vocabulary, i, out + at, room - at, 0, false);
        if (length < 0) return false;
        ends[i] = at += length;
    }
    return true;
}

/* --- whether a decode has to stop ------------------------------------------------------------------------------------- */

/* `stop`: at once, set by another thread. `until`: at that time of the clock; 0: no limit. */
typedef struct {
    volatile char stop;
    uint32_t calls;
    double until;
} limits;

static double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* From now on a decode may take so many seconds; 0: as long as it likes. */
void termchat_limit(limits *l, double seconds) { l->until = seconds > 0 ? clock_now() + seconds : 0; }

/* llama.cpp's abort callback: it is called after each node of the graph, hundreds of times a token, and the clock is slow on
 * some machines. */
bool termchat_is_over(limits *l) { return l->stop || (l->until > 0 && ++l->calls % 16 == 0 && clock_now() > l->until); }
