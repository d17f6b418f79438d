package dev.loopwatch.zoo;

import io.fabric8.kubernetes.api.model.Condition;
import io.fabric8.kubernetes.api.model.ConditionBuilder;
import io.javaoperatorsdk.operator.api.reconciler.Cleaner;
import io.javaoperatorsdk.operator.api.reconciler.Context;
import io.javaoperatorsdk.operator.api.reconciler.ControllerConfiguration;
import io.javaoperatorsdk.operator.api.reconciler.DeleteControl;
import io.javaoperatorsdk.operator.api.reconciler.Reconciler;
import io.javaoperatorsdk.operator.api.reconciler.UpdateControl;
import io.javaoperatorsdk.operator.processing.retry.GradualRetry;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;

/**
 * Brings one object to its spec. Because it is also a cleaner, the SDK adds its finalizer to each object.
 *
 * <p>The SDK gives up after five retries by default; this operator, like many, does not.
 */
@ControllerConfiguration(name = "gear", finalizerName = GearReconciler.FINALIZER)
@GradualRetry(initialInterval = 500, maxInterval = 1000, maxAttempts = -1)
public class GearReconciler implements Reconciler<Gear>, Cleaner<Gear> {

  static final String FINALIZER = "zoo.loopwatch.dev/gear";
  private static final Duration SOON = Duration.ofMillis(300);

  private final Faults faults;
  private final Duration readyAfter;

  GearReconciler(Faults faults, Duration readyAfter) {
    this.faults = faults;
    this.readyAfter = readyAfter;
  }

  @Override
  public UpdateControl<Gear> reconcile(Gear gear, Context<Gear> context) throws Exception {
    if (faults.on("Unacknowledged", gear) != null) {
      return UpdateControl.<Gear>noUpdate().rescheduleAfter(SOON);
    }
    faults.disturb(gear);
    boolean isLate = faults.on("Overdue", gear) != null;
    boolean isNew = gear.getStatus() == null
        || !gear.getMetadata().getGeneration().equals(gear.getStatus().observedGeneration);
    if (isNew && !isLate) {
      Thread.sleep(readyAfter.toMillis());
    }
    String image = gear.getSpec().image;
    Condition ready;
    if (image.isEmpty() || image.contains("invalid")) {
      ready = condition(gear, "False", "InvalidSpec", "spec.image '" + image + "' is not the name of an image");
    } else if (isLate) {
      ready = condition(gear, "False", "Progressing", "the backend is not ready yet");
    } else {
      ready = condition(gear, "True", "Available", "everything is as the spec says");
    }
    UpdateControl<Gear> result = report(gear, ready);
    return isLate ? result.rescheduleAfter(SOON) : result;
  }

  @Override
  public DeleteControl cleanup(Gear gear, Context<Gear> context) throws Exception {
    if (faults.on("FinalizerStuck", gear) != null) {
      return DeleteControl.noFinalizerRemoval().rescheduleAfter(SOON);
    }
    faults.disturb(gear);
    return DeleteControl.defaultDelete();
  }

  /** Writes the status, unless it says the same already. */
  private static UpdateControl<Gear> report(Gear gear, Condition ready) {
    Long generation = gear.getMetadata().getGeneration();
    Gear.Status old = gear.getStatus();
    boolean isSame = old != null && generation.equals(old.observedGeneration)
        && old.conditions != null && old.conditions.equals(List.of(ready));
    if (isSame) {
      return UpdateControl.noUpdate();
    }
    Gear.Status status = new Gear.Status();
    status.observedGeneration = generation;
    status.conditions = List.of(ready);
    gear.setStatus(status);
    return UpdateControl.patchStatus(gear);
  }

  /** Returns the condition Ready, which keeps the time of its last transition. */
  private static Condition condition(Gear gear, String value, String reason, String message) {
    String now = Instant.now().truncatedTo(ChronoUnit.SECONDS).toString();
    List<Condition> old = gear.getStatus() == null || gear.getStatus().conditions == null
        ? List.of() : gear.getStatus().conditions;
    String since = old.stream()
        .filter(c -> c.getType().equals("Ready") && c.getStatus().equals(value))
        .map(Condition::getLastTransitionTime).findFirst().orElse(now);
    return new ConditionBuilder().withType("Ready").withStatus(value).withReason(reason).withMessage(message)
        .withLastTransitionTime(since).withObservedGeneration(gear.getMetadata().getGeneration()).build();
  }
}
