/* awake: see awake.h. */
#include "sys/awake.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "sys/clock.h"
#include "sys/sleeper.h"
#include "sys/thread.h"

/* Work of the owner from one wait to the next, in waits. Less, and much of the core's time
 * would be spent here; more, and what can be won is a hundredth or two. */
#define WORK_MIN 2u
#define WORK_MAX 4u
/* Of the time between two waits so many quarters are work: it is not idle besides. */
#define BUSY_QUARTERS 3u

/* Rounds of a wait and the work before the next one are compared in rows, of one way of
 * waiting and then of the other. Whole rounds, since a host may take back elsewhere what
 * the core has had; rows, since it gets used to a core that sleeps, or does not. After both
 * come those that go the shorter way, and then it begins anew; what was seen before counts
 * for half. */
#define ROW 256u
#define ROWS 16u
#define GAIN_PART 32u /* shorter by this part of it, at least */

/* An average of about so many; what is far longer counts as so many times as long. */
#define AVERAGE_OF 16u
#define OUTLIER 4u

#define LONG_WAIT_NS UINT64_C(1000000)   /* nobody waits so long for tens of microseconds */
#define NOBODY_WAITS_NS UINT64_C(100000) /* then the helper sleeps */
#define LOOKS 32u                        /* between two looks at the clock */

/* What both threads know; the last of them frees it. */
struct helper {
	struct thread thread;
	struct sleeper idle;
	atomic_bool waiting; /* the owner */
	atomic_bool stop;
	atomic_bool ended;
	atomic_uint users;
};

struct awake {
	struct awake_time began;
	uint64_t ended_ns;
	uint64_t work_ns, between_ns, wait_ns, round_ns; /* averages */
	uint32_t turn;                                   /* of those that are worth it */
	uint64_t row_ns[2];                              /* rounds: asleep, awake */
	bool worth_it, is_awake;                         /* this wait */
	struct helper *helper;
	bool tried; /* to start it */
	int cpu;    /* where it is */
};

static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Until nobody has waited for a while, or somebody waits for too long. */
static void turn(const struct helper *helper)
{
	uint64_t since_ns = clock_monotonic_ns(), ns;
	bool waiting = true;

	do {
		for (uint32_t i = 0; i < LOOKS; i++)
			relax();
		ns = clock_monotonic_ns() - since_ns;
		if (atomic_load_explicit(&helper->waiting, memory_order_relaxed) != waiting) {
			waiting = !waiting;
			since_ns += ns;
			ns = 0;
		}
	} while (ns < (waiting ? LONG_WAIT_NS : NOBODY_WAITS_NS) &&
	         !atomic_load_explicit(&helper->stop, memory_order_relaxed));
}

static void let_go(struct helper *helper)
{
	if (atomic_fetch_sub(&helper->users, 1) == 1)
		mem_free(helper);
}

static void run(void *user)
{
	struct helper *helper = user;

	if (thread_run_last() == 0) {
		while (!atomic_load(&helper->stop)) {
			turn(helper);
			sleeper_sleep(&helper->idle, -1);
		}
	}
	atomic_store(&helper->ended, true);
	let_go(helper);
}

struct awake *awake_new(struct awake_time at)
{
	struct awake *awake = mem_zalloc(1, sizeof(*awake));

	if (!awake)
		return NULL;
	awake->began = at;
	awake->ended_ns = at.now_ns;
	return awake;
}

struct awake *awake_free(struct awake *awake)
{
	if (!awake)
		return NULL;
	struct helper *helper = awake->helper;
	if (helper) {
		atomic_store(&helper->stop, true);
		sleeper_wake(&helper->idle);
		thread_leave(&helper->thread);
		let_go(helper);
	}
	return mem_free(awake);
}

static uint64_t clip(uint64_t average, uint64_t ns)
{
	return ns < average * OUTLIER ? ns : average * OUTLIER;
}

static void learn(uint64_t *average, uint64_t ns)
{
	*average = *average == 0 ? ns
	                         : (*average * (AVERAGE_OF - 1) + clip(*average, ns)) / AVERAGE_OF;
}

static bool is_worth_it(const struct awake *awake)
{
	return awake->work_ns >= awake->wait_ns * WORK_MIN &&
	       awake->work_ns <= awake->wait_ns * WORK_MAX &&
	       awake->work_ns * 4 >= awake->between_ns * BUSY_QUARTERS;
}

static bool is_shorter(const struct awake *awake)
{
	return awake->row_ns[true] < awake->row_ns[false] - awake->row_ns[false] / GAIN_PART;
}

static bool choose(struct awake *awake)
{
	uint32_t row = awake->turn / ROW;

	if (awake->turn == 0) {
		awake->row_ns[false] /= 2;
		awake->row_ns[true] /= 2;
	}
	return row == 0 ? false : row == 1 ? true : is_shorter(awake);
}

static void note_round(struct awake *awake, uint64_t ns)
{
	if (awake->worth_it && awake->turn / ROW < 2)
		awake->row_ns[awake->turn / ROW] += clip(awake->round_ns, ns);
	if (awake->worth_it)
		awake->turn = (awake->turn + 1) % (ROW * ROWS);
	learn(&awake->round_ns, ns);
}

static void start_helper(struct awake *awake, int cpu)
{
	struct helper *helper = mem_zalloc(1, sizeof(*helper));

	awake->tried = true;
	if (!helper)
		return;
	sleeper_init(&helper->idle);
	atomic_init(&helper->users, 2);
	int error = thread_start(&helper->thread, &(struct thread_options){ .name = "stile-awake",
	                                                                    .cpu = cpu,
	                                                                    .run = run,
	                                                                    .user = helper });
	awake->helper = error ? mem_free(helper) : helper;
	awake->cpu = cpu;
}

/* The helper is where the owner is, and does not sleep. */
static void call_helper(struct awake *awake)
{
	int cpu = sched_getcpu();

	if (cpu < 0)
		return;
	if (!awake->tried)
		start_helper(awake, cpu);
	struct helper *helper = awake->helper;
	if (!helper || atomic_load_explicit(&helper->ended, memory_order_relaxed))
		return;
	if (cpu != awake->cpu && thread_move(&helper->thread, cpu) == 0)
		awake->cpu = cpu;
	atomic_store(&helper->waiting, true);
	sleeper_wake(&helper->idle);
}

bool awake_begin(struct awake *awake, struct awake_time at)
{
	note_round(awake, at.now_ns - awake->began.now_ns);
	learn(&awake->work_ns, at.cpu_ns - awake->began.cpu_ns);
	learn(&awake->between_ns, at.now_ns - awake->ended_ns);
	awake->began = at;
	awake->worth_it = is_worth_it(awake);
	awake->is_awake = awake->worth_it && choose(awake);
	if (awake->is_awake)
		call_helper(awake);
	return awake->is_awake;
}

void awake_end(struct awake *awake, uint64_t now_ns)
{
	if (awake->is_awake && awake->helper)
		atomic_store_explicit(&awake->helper->waiting, false, memory_order_release);
	learn(&awake->wait_ns, now_ns - awake->began.now_ns);
	awake->ended_ns = now_ns;
}
